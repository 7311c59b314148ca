"""A user's script, measured unchanged: run in this process, watched by hooks of torch, stopped.

The script is in control, so the calls run from torch into this package:

    measure.measure_script        reads the repeat, starts the watchdog, runs the script
      main_module.run_as_main     the script runs as `__main__`; its `import torch` installs the hooks
        optimizer.step()          a line of the script; torch calls our hook after each step
          hooks.Hooks             notes losses, batches and calls in `observations.Observations`
          Measurement.optimizer_stepped   decides whether this call ends a step, and counts it
            sample_steps.send(block)      gets a block's times, yields the next one's length
            EnoughError           is raised out of the script's `optimizer.step()` when the generator returns
      measure.finish              makes the record: outcome (verdict, shares of a step), job_prediction

A script that ends by itself, exits or raises reaches `finish` in the same way. With `--whole` no error is
raised. The ranks of one training stop after the same step (`measurement.Seat`).

Where to change what:

    another call of torch to see      a hook in `hooks`, by `watching` or `module_calls`; its note in
        `observations`
    what ends a step                  `turns` and `step_model` decide; `Measurement` counts
    samples and tokens of a step      `amounts`, by the notes of `loaders` and `calls`
    how long to measure               `sampling.waits_until`; the stop rules are `engine.sampling`'s
    the time of the whole job         `job_prediction`, with evaluations and checkpoints from `rare_work`
    programs other than Python        `program`, `metrics`, `serving`
"""
