"""Find what got slower: between nights, between two runs, between versions.

Input: plans, records and tables of past runs (`run_rows`, `series_reader`). Output: `gate.json` (`tickets`,
`gate_file`), a `RunComparison` (`run_gate`), or a search's next step (`bisect`).

A night goes from `series_reader` to `panel`, `nightly_gate.screen` (suspects, by each `baseline`), fresh
runs, `confirm_suspects`, and `tickets`, with causes from `explain` and slow drifts from `changepoints`.

Simulations of thresholds are in docs/nightly.md and docs/bisect-and-gate.md. Add a kind of ticket in
`tickets`, a cause in `explain`, a column in `run_rows.SCHEMA`.
"""
