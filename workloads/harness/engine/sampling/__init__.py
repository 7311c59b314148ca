"""Samples: how long to warm up, what a sample is, and when to stop.

`engine.timing.time_step` goes through these files in this order: `rules` (all constants), `blocks` (a sample
is a median of timed blocks), `stop` (generators that ask for samples until they return), `mean` (the interval
of correlated samples), `ramp` (samples that still approach a level), `summary` (the `Timing`); then `single`
(passes after the samples). `script.sampling` sends a script's samples to the same generators.

After a change to `rules` or `stop`, run `python -m tests.benchmarks.simulated`, which counts how often the
rules are wrong.
"""
