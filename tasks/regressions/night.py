"""Read a night and its history, and screen it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.regressions.baseline import RERUNS
from tasks.regressions.gate_file import Ticket, Verdicts, read_verdicts
from tasks.regressions.nightly_gate import ConfirmedChange, Screening, confirm_suspects, screen
from tasks.regressions.panel import SeriesPanel, panel_of
from tasks.regressions.series import FreshRuns, Series, SeriesKey
from tasks.regressions.series_reader import (
    PastRun,
    confirmation,
    confirmations,
    fresh_runs,
    read_nights,
    series_of,
)
from tasks.results.metrics import measured_case


@dataclass(frozen=True, slots=True)
class JudgedNight:
    """A night, judged by those before it.

    Attributes:
        series: of its channel, up to this night, in the panel's order.
        changes: confirmed before, oldest first.
        filed: earlier tickets by night, oldest first.
        unfiled: interrupted earlier nights without tickets.
    """

    night: PastRun
    series: tuple[Series, ...]
    screening: Screening
    fresh: dict[SeriesKey, FreshRuns]
    confirmed_by: tuple[str, ...]
    changes: tuple[ConfirmedChange, ...]
    filed: tuple[tuple[str, Ticket], ...]
    unfiled: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def to_confirm(self) -> dict[str, tuple[str, ...]]:
        """Return suspects' cases to measure again, by hardware."""
        cases: dict[str, tuple[str, ...]] = {}
        for key in self.screening.suspects:
            if key not in self.fresh:
                names = (*cases.get(key.hardware, ()), measured_case(key.case))
                cases[key.hardware] = tuple(dict.fromkeys(names))
        return cases

    @property
    def repeats(self) -> int:
        """Return fresh processes per suspect."""
        return RERUNS * self.night.plan.repeats


def judge_night(results: Path, run: str, without: Collection[str] = ()) -> JudgedNight:
    """Judge a night by those before it, except `without`.

    Raises:
        GridbenchError: no such night, or an unreadable plan.
    """
    nights, problems = read_nights(results)
    night = next((night for night in nights if night.plan.run == run), None)
    if night is None:
        why = " ".join(problems)
        raise GridbenchError(f"run {run} in {results} is not a night that can be judged; {why}")
    past = [other for other in nights if other.channel == night.channel and other.plan.run not in without]
    past = past[: past.index(night)]
    series = series_of([*past, night])
    panel = panel_of(series)
    confirming = confirmations(results)
    stored, damaged, more = _stored(past)
    changes = _changes(results, past, stored, confirming, panel)
    names = [other.plan.run for other in past]
    return JudgedNight(
        night=night,
        series=tuple(series),
        screening=screen(panel, changes),
        fresh=_fresh(results, night, confirming.get(run, ())),
        confirmed_by=tuple(confirming.get(run, ())),
        changes=tuple(changes),
        filed=tuple((name, ticket) for name, verdicts in stored.items() for ticket in verdicts.tickets),
        unfiled=tuple(name for name in names if name in confirming and name not in {*stored, *damaged}),
        problems=(*problems, *more),
    )


def _fresh(results: Path, night: PastRun, runs: Sequence[str]) -> dict[SeriesKey, FreshRuns]:
    by_key: dict[SeriesKey, FreshRuns] = {}
    for run in runs:
        for (hardware, case), fresh in fresh_runs(confirmation(results, run), night).items():
            if fresh.count:
                by_key[SeriesKey(hardware, case, night.channel)] = fresh
    return by_key


def _stored(past: Sequence[PastRun]) -> tuple[dict[str, Verdicts], list[str], list[str]]:
    """Return verdicts by run, damaged nights, and a sentence on each of these."""
    stored, damaged, problems = {}, [], []
    for night in past:
        try:
            if verdicts := read_verdicts(night.folder):
                stored[night.plan.run] = verdicts
        except GridbenchError as error:
            damaged.append(night.plan.run)
            problems.append(f"{error}; the night is judged once more")
    return stored, damaged, problems


def _changes(
    results: Path,
    past: Sequence[PastRun],
    stored: Mapping[str, Verdicts],
    confirming: Mapping[str, Sequence[str]],
    panel: SeriesPanel,
) -> list[ConfirmedChange]:
    """Return changes confirmed before.

    A night whose `gate.json` is missing or damaged is judged again.
    """
    changes: list[ConfirmedChange] = []
    for night in past:
        run = night.plan.run
        if run in stored:
            changes += stored[run].confirmed()
        elif run in confirming and run in panel.runs:
            screening = screen(panel, changes, panel.runs.index(run))
            results_of_night = confirm_suspects(screening, _fresh(results, night, confirming[run]))
            changes += [result.confirmed for result in results_of_night if result.confirmed]
    return changes
