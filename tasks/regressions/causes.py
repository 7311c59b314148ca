"""Why a series may have changed, from the records of the nights before and after."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tasks.regressions import explain
from tasks.regressions.night import Tonight
from tasks.regressions.nightly_gate import Outcome
from tasks.regressions.series import Observation, Series
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Record


def reasons(tonight: Tonight, row: int, outcome: Outcome | None) -> Iterator[str]:
    """What is known of a series: its verdict where it has no number, and why a suspect is as it is."""
    series, run = tonight.series[row], tonight.night.plan.run
    here = next((night for night in series.nights if night.run == run), None)
    if here and not here.ok:
        yield f"Tonight's verdict is {here.verdict.replace('_', ' ')}."
    if outcome is None:
        if tonight.judged.signs[row] and series.key in tonight.fresh:
            yield "Too few fresh runs have a number: it stays a suspect."
        return
    usual_s = float(np.exp(tonight.judged.before.control[row]))
    found = [explain.machine(outcome, tonight.fresh[series.key], usual_s)]
    before = _before(tonight, row, outcome) if outcome.change else None
    if before and here:
        old, new = _records(tonight, before, series), _records(tonight, here, series)
        found += [explain.clocks(_clocked(old), _clocked(new))]
        found += [explain.stack(old[0].environment, new[0].environment)] if old and new else []
        found += [explain.commits(before.commit, here.commit)]
    yield from (one.sentence for one in found if one)


def _before(tonight: Tonight, row: int, outcome: Outcome) -> Observation | None:
    """The last night with a number before the change began, which may be nights before it was confirmed."""
    panel, before, end = tonight.judged.panel, tonight.judged.before, tonight.judged.column + 1
    log_s, control = panel.log_s[row, :end], panel.log_control_s[row, :end]
    moved = np.nan_to_num(control - before.control[row]) * before.beta[row]
    change = float(np.log1p(outcome.share))
    first = explain.first_changed(log_s - moved, float(before.centre[row]), change)
    return explain.last_before(tonight.series[row], panel.runs[first])


def _records(tonight: Tonight, night: Observation, series: Series) -> list[Record]:
    """The ok records of a cell in a night, as far as they are on this machine."""
    folder: Path = tonight.night.folder.parent / night.run / "records" / series.key.hardware / series.key.case
    found = read_records(folder) if folder.is_dir() else ()
    return [record for record in found if isinstance(record, Record) and record.ok]


def _clocked(records: list[Record]) -> list[explain.Clocked]:
    return [
        explain.Clocked(record.compute_s, explain.clock_mhz(record.monitor, record.probes))
        for record in records
        if record.compute_s
    ]
