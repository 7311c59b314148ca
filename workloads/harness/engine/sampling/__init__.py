"""Samples: how long to warm up, what a sample is, and when to stop.

In goes a step and a clock, out comes a `Timing` in seconds per step. `engine.timing.time_step` goes through these
files in this order: `rules` (all constants), `blocks` (a sample is a median of timed blocks), `stop` (the
generators `warming_up`, `settling` and `sampling`, each of which asks for samples until it returns), `mean` (the
interval of correlated samples), `ramp` (samples that still approach a level), `summary` (the `Timing`); then
`single` (passes after the samples). A user's script cannot be called for samples: `script.sampling` sends them to
the same generators.

To measure longer or more precisely, change `rules`; to stop for another reason, `stop`; run
`python -m tests.benchmarks.simulated` after either, which counts how often the rules are wrong.
"""
