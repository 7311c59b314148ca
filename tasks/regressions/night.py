"""A night against its history: reads the results store, and has the gate judge."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.regressions.baseline import RERUNS
from tasks.regressions.gate_file import Ticket, Verdicts, read_verdicts
from tasks.regressions.nightly_gate import Change, Fresh, Judged, judge, settle
from tasks.regressions.nights import NightRun, confirmation, confirmations, fresh_of, read_nights, series_of
from tasks.regressions.panel import Panel, panel_of
from tasks.regressions.series import Series, SeriesKey


@dataclass(frozen=True, slots=True)
class Tonight:
    """A night, judged by those before it.

    Attributes:
        series: those of its channel, until tonight, in the order of the panel.
        fresh: what its suspects gave when they were measured again, as far as they were.
        confirmed_by: the runs that did so.
        changes: confirmed in the nights before, oldest first.
        told: the tickets of the nights before, each with its night, oldest first.
        unfiled: nights before that were measured again, and of which nothing was filed: they were cut short.
        odd: sentences about what can't be read of it and of its history.
    """

    night: NightRun
    series: tuple[Series, ...]
    judged: Judged
    fresh: dict[SeriesKey, Fresh]
    confirmed_by: tuple[str, ...]
    changes: tuple[Change, ...]
    told: tuple[tuple[str, Ticket], ...]
    unfiled: tuple[str, ...]
    odd: tuple[str, ...]

    @property
    def again(self) -> dict[str, tuple[str, ...]]:
        """The cases of the suspects that were not measured again yet, by hardware."""
        found: dict[str, tuple[str, ...]] = {}
        for key in self.judged.suspects:
            if key not in self.fresh:
                found[key.hardware] = (*found.get(key.hardware, ()), key.case)
        return found

    @property
    def repeats(self) -> int:
        """Fresh processes for each suspect: `RERUNS` times what a night has."""
        return RERUNS * self.night.plan.repeats


def judge_night(results: Path, run: str, without: Collection[str] = ()) -> Tonight:
    """Judge a night of a results folder by the nights before it, but for those `without`.

    Raises:
        GridbenchError: there is no such night, or its plan can't be read.
    """
    nights, odd = read_nights(results)
    night = next((night for night in nights if night.plan.run == run), None)
    if night is None:
        raise GridbenchError(f"run {run} in {results} is no night that can be judged; {' '.join(odd)}")
    past = [other for other in nights if other.channel == night.channel and other.plan.run not in without]
    past = past[: past.index(night)]
    series = series_of([*past, night])
    panel = panel_of(series)
    again = confirmations(results)
    stored, damaged, more = _stored(past)
    changes = _changes(results, past, stored, again, panel)
    return Tonight(
        night=night,
        series=tuple(series),
        judged=judge(panel, changes),
        fresh=_fresh(results, night, again.get(run, ())),
        confirmed_by=tuple(again.get(run, ())),
        changes=tuple(changes),
        told=tuple((of, ticket) for of, verdicts in stored.items() for ticket in verdicts.tickets),
        unfiled=tuple(
            name for one in past if (name := one.plan.run) in again and name not in {*stored, *damaged}
        ),
        odd=(*odd, *more),
    )


def _fresh(results: Path, night: NightRun, runs: Sequence[str]) -> dict[SeriesKey, Fresh]:
    """What the confirmations of a night found: of each series the latest that has a number."""
    found: dict[SeriesKey, Fresh] = {}
    for run in runs:
        for (hardware, case), fresh in fresh_of(confirmation(results, run), night).items():
            if fresh.count:
                found[SeriesKey(hardware, case, night.channel)] = fresh
    return found


def _stored(past: Sequence[NightRun]) -> tuple[dict[str, Verdicts], list[str], list[str]]:
    """What the gate said of the nights before, by run; those that can't be read, with a sentence for each."""
    found, damaged, odd = {}, [], []
    for night in past:
        try:
            if verdicts := read_verdicts(night.folder):
                found[night.plan.run] = verdicts
        except GridbenchError as error:
            damaged.append(night.plan.run)
            odd.append(f"{error}; the night is judged once more")
    return found, damaged, odd


def _changes(
    results: Path,
    past: Sequence[NightRun],
    stored: Mapping[str, Verdicts],
    again: Mapping[str, Sequence[str]],
    panel: Panel,
) -> list[Change]:
    """The changes that were confirmed in the nights before.

    A night whose `gate.json` is gone or can't be read is judged once more: what it was judged by is there.
    """
    changes: list[Change] = []
    for night in past:
        run = night.plan.run
        if run in stored:
            changes += stored[run].confirmed()
        elif run in again and run in panel.runs:
            outcomes = settle(
                judge(panel, changes, panel.runs.index(run)), _fresh(results, night, again[run])
            )
            changes += [outcome.change for outcome in outcomes if outcome.change]
    return changes
