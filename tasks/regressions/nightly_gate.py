"""A night, judged: which series are suspects, what their fresh runs make of them, and what is remembered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tasks.regressions.baseline import (
    LEAST_RERUNS,
    RERUNS,
    Baseline,
    Floats,
    Ints,
    Level,
    baseline,
    confirmed,
    suspected,
    threshold_z,
)
from tasks.regressions.panel import Panel
from tasks.regressions.robust import half_of, pseudomedian
from tasks.regressions.series import SeriesKey

MISSED = 3  # nights in a row without a number that are news


class State(StrEnum):
    """What a series is after a night."""

    WARMING = "warming"  # too few nights to say anything
    WATCHING = "watching"
    SUSPECT = "suspect"  # beyond its baseline, and not yet measured again
    CONFIRMED = "confirmed"
    CLEARED = "cleared"  # measured again, and as before
    MISSING = "missing"  # without a number for `MISSED` nights


@dataclass(frozen=True, slots=True)
class Fresh:
    """Fresh runs of a suspect, in pairs: seconds per step, and those of the control; NaN for what failed.

    Each is what a night is, with as many repeats: a baseline's spread is that of nights.
    """

    seconds: tuple[float, ...]
    control_s: tuple[float, ...]

    @property
    def count(self) -> int:
        """How many have a number."""
        return sum(seconds > 0 for seconds in self.seconds)


@dataclass(frozen=True, slots=True)
class Change:
    """A confirmed change, as it is stored: what later nights need to know of it. Replaying needs no more.

    Attributes:
        run: the night that was suspected.
        share: seconds over those before, minus 1; above 0 is slower.
        z: of the change in standard errors.
        fresh: what confirmed it.
        spread, beta: of the baseline that it changed from.
    """

    key: SeriesKey
    run: str
    share: float
    z: float
    fresh: Fresh
    spread: float
    beta: float

    @property
    def slower(self) -> bool:
        """Whether it is a regression."""
        return self.share > 0


@dataclass(frozen=True, slots=True)
class Judged:
    """A night before its suspects are measured again; one value a series of the panel.

    Attributes:
        column: the night's, in the panel.
        signs: +1 for a series that seems slower, -1 for faster, 0 for neither.
        z: its distance from the baseline in spreads of a night; NaN where there is nothing to say.
        smallest: share by which it must change to be told with even odds.
        confirm_z: what fresh runs are held to.
    """

    panel: Panel
    column: int
    before: Baseline
    signs: Ints
    z: Floats
    smallest: Floats
    confirm_z: float

    @property
    def suspects(self) -> list[SeriesKey]:
        """Which to measure again tonight, `RERUNS` times."""
        return [self.panel.keys[row] for row in np.flatnonzero(self.signs)]

    def states(self) -> list[State]:
        """Of each series, as long as no suspect was measured again."""
        missing = (self.panel.missed[:, self.column] >= MISSED) & self.panel.asked
        flags = zip(self.signs, missing, self.before.warming, strict=True)
        return [_state(bool(sign), bool(gone), bool(warming)) for sign, gone, warming in flags]


def _state(suspect: bool, missing: bool, warming: bool) -> State:
    if suspect:
        return State.SUSPECT
    if missing:
        return State.MISSING
    return State.WARMING if warming else State.WATCHING


@dataclass(frozen=True, slots=True)
class Outcome:
    """What fresh runs made of a suspect.

    Attributes:
        change: None where it is cleared.
        share, z: of the change that the fresh runs show, confirmed or not.
        box: whether their controls show that the box was to blame.
    """

    key: SeriesKey
    change: Change | None
    share: float
    z: float
    box: bool


def judge(panel: Panel, changes: Iterable[Change], column: int = -1) -> Judged:
    """Hold a night, by default the last, against each series' baseline; `changes` are those before."""
    column = range(len(panel.runs))[column]
    log_s, log_control_s = panel.log_s[:, : column + 1], panel.log_control_s[:, : column + 1]
    before = baseline(log_s, log_control_s, level_of(panel, changes, column), panel.alone)
    signs, z = suspected(log_s, log_control_s, before)
    confirm_z = threshold_z(max(int(panel.asked.sum()), 1))
    return Judged(panel, column, before, signs, z, before.smallest_change(confirm_z), confirm_z)


def settle(judged: Judged, fresh: Mapping[SeriesKey, Fresh]) -> list[Outcome]:
    """What the fresh runs of suspects say; a change of the other direction than suspected clears it, too.

    A suspect with fewer than `LEAST_RERUNS` numbers stays one.
    """
    keys = judged.panel.keys
    told = {key for key, of in fresh.items() if of.count >= LEAST_RERUNS}
    rows = np.array([row for row in np.flatnonzero(judged.signs) if keys[row] in told], np.int64)
    if not len(rows):
        return []
    found = [fresh[keys[row]] for row in rows]
    log_s, log_control_s = _logs([f.seconds for f in found]), _logs([f.control_s for f in found])
    before = judged.before.of(rows)
    signs, change, z = confirmed(log_s, log_control_s, before, judged.confirm_z)
    box, run = before.box_moved(log_control_s), judged.panel.runs[judged.column]
    outcomes = []
    for place, row in enumerate(rows):
        key, share = keys[row], float(np.expm1(change[place]))
        stood = float(before.spread[place]), float(before.beta[place])
        alike = signs[place] == judged.signs[row]
        stored = Change(key, run, share, float(z[place]), found[place], *stood) if alike else None
        outcomes.append(Outcome(key, stored, share, float(z[place]), bool(box[place])))
    return outcomes


def level_of(panel: Panel, changes: Iterable[Change], column: int) -> Level:
    """Where each series stands in a night: after its last change of machine, control, or speed."""
    level = Level.new(len(panel.keys))
    level.segment[:] = level.start[:] = panel.segment[:, column]
    rows = {key: row for row, key in enumerate(panel.keys)}
    columns = {run: place for place, run in enumerate(panel.runs)}
    for change in changes:
        row, at = rows.get(change.key), columns.get(change.run, column)
        if row is None or at >= column or at < level.start[row]:
            continue
        level.start[row] = at + 1
        level.seed_s[row] = pseudomedian(_logs([change.fresh.seconds]))[0]
        level.seed_control_s[row] = half_of(_logs([change.fresh.control_s]))[0]
        level.spread[row], level.beta[row] = change.spread, change.beta
    return level


def _logs(values: Sequence[Sequence[float]]) -> Floats:
    """(series, runs) of logs, with NaN in place of runs that are not there or have no number."""
    width = max(RERUNS, *(len(of) for of in values))
    found = np.full((len(values), width), np.nan)
    for row, of in enumerate(values):
        found[row, : len(of)] = of
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(found > 0, np.log(found), np.nan)
