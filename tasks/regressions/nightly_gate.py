"""The nightly gate: screen a night for suspects, and confirm them by fresh runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tasks.regressions.baseline import (
    LAG,
    LEAST_RERUNS,
    RERUNS,
    WINDOW,
    Baseline,
    SeriesLevels,
    baseline,
    threshold_z,
)
from tasks.regressions.change import Change
from tasks.regressions.panel import SeriesPanel
from tasks.regressions.robust import Floats, Ints, half_of, pseudomedian
from tasks.regressions.series import FreshRuns, SeriesKey
from tasks.regressions.suspicion import confirmed, suspected
from tasks.results.values import Estimate

MISSED = 3  # nights in a row without a number that are news


class SeriesState(StrEnum):
    """The state of a series after a night."""

    WARMING = "warming"  # too few nights to say anything
    WATCHING = "watching"
    SUSPECT = "suspect"  # beyond its baseline, and not yet measured again
    CONFIRMED = "confirmed"
    CLEARED = "cleared"  # measured again, and as before
    MISSING = "missing"  # without a number for `MISSED` nights


@dataclass(frozen=True, slots=True)
class ConfirmedChange:
    """A confirmed change as it is stored: all that later nights need, also to judge this night again.

    Attributes:
        run: the night that was suspected.
        share: seconds over those before, minus 1; above 0 is slower.
        z: of the change in standard errors.
        fresh: the fresh runs that confirmed it.
        spread, beta, shared, freedom: of the baseline that it changed from.
    """

    key: SeriesKey
    run: str
    share: float
    z: float
    fresh: FreshRuns
    spread: float
    beta: float
    shared: float = 0.0
    freedom: float = 0.0


@dataclass(frozen=True, slots=True)
class Screening:
    """A night before its suspects are measured again; one value a series of the panel.

    Attributes:
        column: the night's, in the panel.
        signs: +1 for a series that seems slower, -1 for faster, 0 for neither.
        z: its distance from the baseline in spreads of a night; NaN where nothing can be said.
        smallest: share by which it must change to be detected with even odds.
        confirm_z: standard errors that fresh runs must exceed.
    """

    panel: SeriesPanel
    column: int
    before: Baseline
    signs: Ints
    z: Floats
    smallest: Floats
    confirm_z: float

    @property
    def suspects(self) -> list[SeriesKey]:
        """Return the series to measure again tonight, `RERUNS` times."""
        return [self.panel.keys[row] for row in np.flatnonzero(self.signs)]

    def states(self) -> list[SeriesState]:
        """Return the state of each series, as long as no suspect was measured again."""
        missing = (self.panel.missed[:, self.column] >= MISSED) & self.panel.planned
        flags = zip(self.signs, missing, self.before.warming, strict=True)
        return [_state(bool(sign), bool(gone), bool(warming)) for sign, gone, warming in flags]


def _state(suspect: bool, missing: bool, warming: bool) -> SeriesState:
    if suspect:
        return SeriesState.SUSPECT
    if missing:
        return SeriesState.MISSING
    return SeriesState.WARMING if warming else SeriesState.WATCHING


@dataclass(frozen=True, slots=True)
class SuspectResult:
    """The result of a suspect's fresh runs.

    Attributes:
        change: the change that they show, confirmed or not.
        z: of that change in standard errors.
        confirmed: the change to store; None where the suspect is cleared.
        box: the controls show that the box was to blame.
    """

    key: SeriesKey
    change: Change
    z: float
    confirmed: ConfirmedChange | None
    box: bool

    @property
    def share(self) -> float:
        """Return the seconds over those before, minus 1."""
        return self.change.share.value


def screen(panel: SeriesPanel, changes: Iterable[ConfirmedChange], column: int = -1) -> Screening:
    """Compare a night, by default the last, with each series' baseline; `changes` are those before it."""
    column = range(len(panel.runs))[column]
    nights = panel.until(column)
    before = baseline(nights, levels_at(panel, changes, column), panel.alone)
    signs, z = suspected(nights.log_s, nights.log_control_s, before)
    confirm_z = threshold_z(max(int(panel.planned.sum()), 1))
    return Screening(panel, column, before, signs, z, before.smallest_change(confirm_z), confirm_z)


def confirm_suspects(screening: Screening, fresh: Mapping[SeriesKey, FreshRuns]) -> list[SuspectResult]:
    """Return the results of the suspects' fresh runs.

    A change in the other direction than suspected clears the suspect, too. One with fewer than `LEAST_RERUNS`
    numbers has no result and stays a suspect.
    """
    keys = screening.panel.keys
    enough = {key for key, runs in fresh.items() if runs.count >= LEAST_RERUNS}
    rows = np.array([row for row in np.flatnonzero(screening.signs) if keys[row] in enough], np.int64)
    if not len(rows):
        return []
    runs = [fresh[keys[row]] for row in rows]
    log_s, log_control_s = _logs([f.seconds for f in runs]), _logs([f.control_s for f in runs])
    before = screening.before.select(rows)
    signs, logs, z = confirmed(log_s, log_control_s, before, screening.confirm_z)
    box = before.box_moved(log_control_s)
    return [
        _result(
            screening, int(row), float(np.expm1(logs[i])), float(z[i]), int(signs[i]), runs[i], bool(box[i])
        )
        for i, row in enumerate(rows)
    ]


def _result(
    screening: Screening, row: int, share: float, z: float, sign: int, fresh: FreshRuns, box: bool
) -> SuspectResult:
    """Return the result of one suspect; a confirmed change has the direction that was suspected."""
    key, run, before = screening.panel.keys[row], screening.panel.runs[screening.column], screening.before
    behaviour = (float(values[row]) for values in (before.spread, before.beta, before.shared, before.freedom))
    stored = ConfirmedChange(key, run, share, z, fresh, *behaviour)
    change = Change(Estimate(share), float(screening.smallest[row]))
    return SuspectResult(key, change, z, stored if sign == screening.signs[row] else None, box)


def levels_at(panel: SeriesPanel, changes: Iterable[ConfirmedChange], column: int) -> SeriesLevels:
    """Return each series' level in a night: since its last change of machine, control, or speed."""
    levels, changes = SeriesLevels.new(len(panel.keys)), tuple(changes)
    levels.segment[:] = levels.start[:] = panel.segment[:, column]
    for begin in np.unique(panel.segment[panel.alike[:, column], column]):
        _carry(levels, panel, changes, int(begin), column)
    rows, last = {key: row for row, key in enumerate(panel.keys)}, dict[int, tuple[int, float]]()
    columns = {run: index for index, run in enumerate(panel.runs)}
    for change in changes:
        row, at = rows.get(change.key), columns.get(change.run, column)
        if row is None or at >= column or at < levels.start[row]:
            continue
        undone = row in last and at - last[row][0] <= LAG and last[row][1] * change.share < 0
        levels.flaps[row] |= undone and column - at <= WINDOW
        last[row] = at, change.share
        levels.start[row] = at + 1
        levels.seed_s[row] = pseudomedian(_logs([change.fresh.seconds]))[0]
        levels.seed_control_s[row] = half_of(_logs([change.fresh.control_s]))[0]
        levels.spread[row], levels.beta[row], levels.shared[row] = change.spread, change.beta, change.shared
        levels.freedom[row] = change.freedom
    return levels


def _carry(
    levels: SeriesLevels, panel: SeriesPanel, changes: Iterable[ConfirmedChange], begin: int, column: int
) -> None:
    """Give the series whose segment begins in a column the spread that they had before it."""
    rows = np.flatnonzero(panel.alike[:, column] & (panel.segment[:, column] == begin))
    before = panel.select(rows)
    old = baseline(before.until(begin - 1), levels_at(before, changes, begin - 1), before.alone)
    known = rows[~old.warming]
    for name in ("spread", "beta", "shared", "freedom"):
        getattr(levels, name)[known] = getattr(old, name)[~old.warming]


def _logs(values: Sequence[Sequence[float]]) -> Floats:
    """Return (series, runs) of logs, with NaN for runs that are missing or have no number."""
    width = max(RERUNS, *(len(row) for row in values))
    seconds = np.full((len(values), width), math.nan)
    for index, row in enumerate(values):
        seconds[index, : len(row)] = row
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(seconds > 0, np.log(seconds), np.nan)
