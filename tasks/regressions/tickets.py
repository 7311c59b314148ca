"""A night's verdicts, causes, and tickets."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tasks.regressions import explain
from tasks.regressions.baseline import LEAST_CHANGE
from tasks.regressions.change import share_in_words
from tasks.regressions.changepoints import LEAK, WEEK, against_anchor, past_steps
from tasks.regressions.gate_file import SeriesVerdict, StoredChange, Ticket, Verdicts
from tasks.regressions.missing import failures, in_part, missing, more_than_ever
from tasks.regressions.night import JudgedNight
from tasks.regressions.nightly_gate import (
    MISSED,
    ConfirmedChange,
    SeriesState,
    SuspectResult,
    confirm_suspects,
)
from tasks.regressions.panel import SeriesPanel
from tasks.regressions.series import Observation, Series, SeriesKey
from tasks.results.metrics import measured_case
from workloads.harness.records.files import read_records
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record


def verdicts_of(judged: JudgedNight) -> Verdicts:
    screening, run = judged.screening, judged.night.plan.run
    results = {result.key: result for result in confirm_suspects(screening, judged.fresh)}
    states = screening.states()
    has_number = np.isfinite(screening.panel.log_s[:, screening.column])
    watched = np.flatnonzero(screening.panel.planned | has_number)
    series = [_verdict(judged, int(row), states[row], results) for row in watched]
    odd = more_than_ever(failures(judged.series)), in_part(judged.night.rows, run)
    return Verdicts(
        run=run,
        channel=judged.night.channel,
        confirm_z=screening.confirm_z,
        confirmations=judged.confirmed_by,
        series=tuple(series),
        changes=tuple(StoredChange.of(result.confirmed) for result in results.values() if result.confirmed),
        tickets=(
            *_changed(judged, series, results),
            *_missing(judged),
            *leaks(screening.panel, screening.column, judged.changes, judged.filed),
        ),
        odd=(*judged.problems, *(sentence for sentence in odd if sentence)),
    )


def _verdict(
    judged: JudgedNight, row: int, state: SeriesState, results: Mapping[SeriesKey, SuspectResult]
) -> SeriesVerdict:
    screening, key = judged.screening, judged.screening.panel.keys[row]
    result = results.get(key)
    if result:
        state = SeriesState.CONFIRMED if result.confirmed else SeriesState.CLEARED
    log_s = float(screening.panel.log_s[row, screening.column])
    return SeriesVerdict(
        hardware=key.hardware,
        case=key.case,
        state=state,
        seconds=math.exp(log_s) if math.isfinite(log_s) else None,
        z=_finite(screening.z[row]),
        share=_finite(result.share) if result else None,
        smallest_change=_finite(screening.smallest[row]),
        nights=int(screening.before.nights[row]),
        beta=float(screening.before.beta[row]),
        because=tuple(_reasons(judged, row, result)),
    )


def _reasons(judged: JudgedNight, row: int, result: SuspectResult | None) -> Iterator[str]:
    series, run = judged.series[row], judged.night.plan.run
    tonight = next((night for night in series.nights if night.run == run), None)
    if tonight and not tonight.ok:
        yield f"Tonight's verdict is {tonight.verdict.replace('_', ' ')}."
    if result is None:
        if judged.screening.signs[row] and series.key in judged.fresh:
            yield "Too few fresh runs have a number: it stays a suspect."
        return
    usual_s = float(np.exp(judged.screening.before.control[row]))
    fresh = judged.fresh[series.key]
    explanations = [explain.machine(result, fresh, usual_s), explain.uncontrolled(result, fresh)]
    before = _last_unchanged(judged, row, result) if result.confirmed else None
    if before and tonight:
        old, new = _records(judged, before, series), _records(judged, tonight, series)
        explanations += [explain.clocks(_clocked(old), _clocked(new))]
        explanations += [explain.stack(old[0].environment, new[0].environment)] if old and new else []
        explanations += [explain.commits(before.commit, tonight.commit)]
    yield from filter(None, explanations)


def _last_unchanged(judged: JudgedNight, row: int, result: SuspectResult) -> Observation | None:
    """Return the last night with a number before the change began, often nights before its confirmation."""
    panel, before, end = judged.screening.panel, judged.screening.before, judged.screening.column + 1
    log_s, control = panel.log_s[row, :end], panel.log_control_s[row, :end]
    of_the_box = np.nan_to_num(control - before.control[row]) * before.beta[row]
    change = float(np.log1p(result.share))
    first = explain.first_changed(log_s - of_the_box, float(before.centre[row]), change)
    return explain.last_before(judged.series[row], panel.runs[first])


def _records(judged: JudgedNight, night: Observation, series: Series) -> list[Record]:
    folder: Path = judged.night.folder.parent / night.run / "records" / series.key.hardware
    folder /= measured_case(series.key.case)
    records = read_records(folder) if folder.is_dir() else ()
    return [record for record in records if isinstance(record, Record) and counts(record)]


def _clocked(records: list[Record]) -> list[explain.Clocked]:
    return [
        explain.Clocked(record.compute_s, explain.clock_mhz(record.monitor, record.probes))
        for record in records
        if record.compute_s
    ]


def _changed(
    judged: JudgedNight, series: Sequence[SeriesVerdict], results: Mapping[SeriesKey, SuspectResult]
) -> Iterator[Ticket]:
    whole = explain.whole_targets(judged.screening, results.values())
    for hardware, keys in whole.items():
        shares = [results[key].share for key in keys]
        share = max(shares, key=abs)
        yield Ticket(
            kind="target" if share > 0 else "improvement",
            hardware=hardware,
            cases=tuple(key.case for key in keys),
            sentence=explain.target(hardware, shares, sum(s.hardware == hardware for s in series)),
            share=share,
        )
    for verdict in series:
        alone = verdict.case not in [key.case for key in whole.get(verdict.hardware, ())]
        if verdict.state is SeriesState.CONFIRMED and alone and verdict.share is not None:
            yield Ticket(
                kind="regression" if verdict.share > 0 else "improvement",
                hardware=verdict.hardware,
                cases=(verdict.case,),
                sentence=f"{verdict.hardware}/{verdict.case} is "
                f"{share_in_words(verdict.share, verdict.case)} than before.",
                share=verdict.share,
                because=verdict.because,
            )


def _missing(judged: JudgedNight) -> Iterator[Ticket]:
    panel, column = judged.screening.panel, judged.screening.column
    columns = {run: index for index, run in enumerate(panel.runs)}
    rows = {key: row for row, key in enumerate(panel.keys)}
    for key, sentence in missing(judged.screening, judged.series).items():
        missed = panel.missed[rows[key], column]
        runs = [run for run, _ in _filed(judged.filed, key, "missing")]
        if missed >= MISSED and not any(columns.get(run, -1) > column - missed for run in runs):
            yield Ticket(kind="missing", hardware=key.hardware, cases=(key.case,), sentence=sentence)


def leaks(
    panel: SeriesPanel,
    column: int,
    changes: Sequence[ConfirmedChange],
    filed: Sequence[tuple[str, Ticket]],
) -> Iterator[Ticket]:
    """Yield weekly tickets for changes that single nights missed.

    `changes` and `filed` (by night) are of nights before.
    """
    if (column + 1) % WEEK:
        return
    earlier = {key: [ticket for _, ticket in _filed(filed, key, "leak")] for key in panel.keys}
    runs = {key: [run for ticket in tickets for run in ticket.since] for key, tickets in earlier.items()}
    lately = panel.log_control_s[:, max(0, column + 1 - WEEK) : column + 1]
    controlled = {key for key, row in zip(panel.keys, np.isfinite(lately), strict=True) if row.any()}
    steps = past_steps(panel, runs, changes, column)
    for key, of_key in steps.items():
        share = math.prod(1 + step.share for step in of_key) - 1
        if abs(share) > LEAST_CHANGE:
            sentence = f"{share_in_words(share, key.case)}, by {'; '.join(step.sentence for step in of_key)}"
            yield _leak(key, share, sentence, [step.run for step in of_key], key in controlled)
    for key, drift in against_anchor(panel, {}, changes, column).items():
        # a drift is news if it turned, or grew by a further `LEAK` since it was filed
        shares = [ticket.share for ticket in earlier[key] if ticket.share is not None]
        is_news = all(drift.share * share < 0 or abs(drift.share) > abs(share) + LEAK for share in shares)
        if drift.shown and key not in steps and is_news:
            yield _leak(key, drift.share, drift.sentence, [drift.last], key in controlled)


def _leak(key: SeriesKey, share: float, sentence: str, since: Sequence[str], controlled: bool) -> Ticket:
    return Ticket(
        kind="leak",
        hardware=key.hardware,
        cases=(key.case,),
        sentence=f"{key.hardware}/{key.case} is {sentence}.",
        share=share,
        because=() if controlled else (explain.UNCONTROLLED,),
        since=tuple(since),
    )


def _filed(filed: Sequence[tuple[str, Ticket]], key: SeriesKey, kind: str) -> list[tuple[str, Ticket]]:
    return [(r, t) for r, t in filed if (t.kind, t.hardware) == (kind, key.hardware) and key.case in t.cases]


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
