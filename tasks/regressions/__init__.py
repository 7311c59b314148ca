"""Find what got slower: between nights, between two runs, between versions.

Input: plans, records and tables of past runs (`run_rows`, `series_reader`), as `Series` of one case, machine
and channel, or as `Sample`s of two runs. Output: `gate.json` with verdicts and tickets (`tickets`,
`gate_file`), a `RunComparison` (`run_gate`), or the next step of a search (`bisect`).

A night goes from `series_reader` to `panel` (arrays of log seconds), `nightly_gate.screen` (suspects, by each
`baseline`), fresh runs, `confirm_suspects`, and `tickets`, which adds causes from `explain` and slow drifts
from `changepoints`.

Thresholds are constants of `baseline`, `change`, `changepoints` and `missing`; their simulations are in
docs/nightly.md and docs/bisect-and-gate.md. Add a kind of ticket in `tickets`, a likely cause in `explain`, a
column in `run_rows.SCHEMA`.
"""
