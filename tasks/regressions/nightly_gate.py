"""Screen a night for suspects, and confirm them by fresh runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tasks.regressions.baseline import (
    LAG,
    LEAST_CHANGE,
    LEAST_RERUNS,
    RERUNS,
    SEPARATE,
    SUSPECT_Z,
    WINDOW,
    Baseline,
    SeriesLevels,
    baseline,
    threshold_z,
)
from tasks.regressions.change import Change
from tasks.regressions.panel import SeriesPanel
from tasks.regressions.robust import Floats, Ints, half_of, inner_range, lasting, pseudomedian
from tasks.regressions.series import FreshRuns, SeriesKey
from tasks.results.values import Estimate

LEAST_OWN = 1e-6  # least share of the variance that runs do not have in common
# Attributes of a baseline that the next level keeps, by their names there: a new level starts with one mode.
BEHAVIOUR = {"spread": "whole_spread", "beta": "beta", "shared": "whole_shared", "freedom": "freedom"}
MISSED = 3  # nights in a row without a number that are reported
LASTING_Z = 2.5  # of tonight and the nights before together
LEAST_Z = 0.5  # of tonight alone, if these make a suspect
CHOICES_Z = 0.3  # subtracted from the largest z of several choices
AGREEMENT = (
    2.75  # spreads within which fresh runs without their extremes must lie, or within half of their change
)


class SeriesState(StrEnum):
    """A series after a night."""

    WARMING = "warming"  # too few nights to judge
    WATCHING = "watching"
    SUSPECT = "suspect"  # beyond its baseline, and not yet measured again
    CONFIRMED = "confirmed"
    CLEARED = "cleared"  # measured again, and unchanged
    MISSING = "missing"  # without a number for `MISSED` nights


@dataclass(frozen=True, slots=True)
class ConfirmedChange:
    """A confirmed change, for later nights.

    Attributes:
        run: the suspected night.
        share: seconds over before, minus 1.
        z: the change in standard errors.
        fresh: the confirming runs.
        spread, beta, shared, freedom: of the baseline before.
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
    """A night before its suspects are measured again.

    Attributes:
        signs: +1 for slower, -1 for faster, else 0.
        z: distance from the baseline in spreads of a night.
        smallest: change (share) detected with even odds.
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
        return [self.panel.keys[row] for row in np.flatnonzero(self.signs)]

    def states(self) -> list[SeriesState]:
        missing = (self.panel.missed[:, self.column] >= MISSED) & self.panel.planned
        states = []
        for sign, is_missing, is_warming in zip(self.signs, missing, self.before.warming, strict=True):
            state = SeriesState.WARMING if is_warming else SeriesState.WATCHING
            state = SeriesState.MISSING if is_missing else state
            states.append(SeriesState.SUSPECT if sign else state)
        return states


@dataclass(frozen=True, slots=True)
class SuspectResult:
    """A suspect's fresh runs.

    Attributes:
        change: confirmed or not; `z` in standard errors.
        confirmed: the change to store, if any.
        box: controls show that the machine is the cause.
    """

    key: SeriesKey
    change: Change
    z: float
    confirmed: ConfirmedChange | None
    box: bool

    @property
    def share(self) -> float:
        """Return seconds over before, minus 1."""
        return self.change.share.value


def screen(panel: SeriesPanel, changes: Iterable[ConfirmedChange], column: int = -1) -> Screening:
    """Compare a night with baselines, by the `changes` before it."""
    column = range(len(panel.runs))[column]
    nights = panel.until(column)
    before = baseline(nights, levels_at(panel, changes, column), panel.alone, panel.hardware)
    signs, z = suspected(nights.log_s, nights.log_control_s, before)
    confirm_z = threshold_z(max(int(panel.planned.sum()), 1))
    return Screening(panel, column, before, signs, z, before.smallest_change(confirm_z), confirm_z)


def confirm_suspects(screening: Screening, fresh: Mapping[SeriesKey, FreshRuns]) -> list[SuspectResult]:
    """Return one per suspect.

    A change opposite to the suspicion clears the suspect. With fewer than `LEAST_RERUNS` numbers it stays
    one.
    """
    keys, run = screening.panel.keys, screening.panel.runs[screening.column]
    enough = {key for key, runs in fresh.items() if runs.count >= LEAST_RERUNS}
    rows = np.array([row for row in np.flatnonzero(screening.signs) if keys[row] in enough], np.int64)
    if not len(rows):
        return []
    runs = [fresh[keys[row]] for row in rows]
    log_s, log_control_s = _logs([f.seconds for f in runs]), _logs([f.control_s for f in runs])
    before = screening.before.select(rows)
    signs, logs, z = confirmed(log_s, log_control_s, before, screening.confirm_z)
    box, shares = before.box_moved(log_control_s), np.expm1(logs)
    behaviour = np.column_stack([getattr(before, name) for name in BEHAVIOUR.values()]).tolist()
    results = []
    for i, row in enumerate(rows):
        share, key = float(shares[i]), keys[row]
        change = Change(Estimate(share), float(screening.smallest[row]))
        stored = ConfirmedChange(key, run, share, float(z[i]), runs[i], *behaviour[i])
        is_confirmed = signs[i] == screening.signs[row]
        results.append(
            SuspectResult(key, change, float(z[i]), stored if is_confirmed else None, bool(box[i]))
        )
    return results


def suspected(log_s: Floats, log_control_s: Floats, before: Baseline) -> tuple[Ints, Floats]:
    """Return +1 for series slower in the last column, -1 for faster, else 0; and z."""
    moved = before.of_one_mode(before.adjusted(log_s[:, -1:], log_control_s[:, -1:])[:, 0] - before.centre)
    z = np.where(before.warming, np.nan, moved / before.spread / np.sqrt(1 + before.of_centre))
    together = _with_recent(moved, np.ones(len(moved)), before)[1][:, 1:].max(axis=1, initial=-np.inf)
    beyond = (np.abs(z) > SUSPECT_Z) | ((np.abs(z) > LEAST_Z) & (together > LASTING_Z))
    beyond &= np.abs(moved) > np.log1p(LEAST_CHANGE) / 2
    return np.where(beyond, np.sign(moved), 0).astype(np.int64), z


def confirmed(
    log_s: Floats, log_control_s: Floats, before: Baseline, confirm_z: float
) -> tuple[Ints, Floats, Floats]:
    """Return +1 for slower series, -1 for faster, else 0; the log change; z.

    Logs are (series, runs), without the suspected night, which was selected for its value. `before` is that
    night's baseline.
    """
    values, moved = before.of_fresh_runs(log_s, log_control_s)
    tonight, runs = before.of_one_mode(pseudomedian(values) - before.centre), np.isfinite(values).sum(axis=1)
    fresh = before.of_fresh(runs, _separate(values, before)) * np.where(moved, before.of_full_weight, 1.0)
    change, z = _surest(tonight, np.maximum(fresh, _of_scatter(values, before)), before.beside(moved))
    agree = inner_range(values) <= np.maximum(AGREEMENT * before.spread, np.abs(change) / 2)
    large = np.minimum(np.abs(tonight), np.abs(change)) > np.log1p(LEAST_CHANGE)
    shown = (np.abs(z) > before.needed(confirm_z)) & large & agree
    return np.where(shown, np.sign(change), 0).astype(np.int64), change, z


def _of_scatter(values: Floats, before: Baseline) -> Floats:
    """Return the variance of fresh runs, relative to a night's.

    Half of it is used, because few runs are a poor estimate.
    """
    runs = np.maximum(np.isfinite(values).sum(axis=1), 2)
    variance: Floats = _scatter(values) / before.spread**2 / runs / 2
    return variance


def _scatter(values: Floats) -> Floats:
    runs = np.maximum(np.isfinite(values).sum(axis=1), 2)
    variance: Floats = np.nansum((values - pseudomedian(values)[:, None]) ** 2, axis=1) / (runs - 1)
    return variance


def _separate(values: Floats, before: Baseline) -> Floats:
    """Return the chance, by Bayes' theorem, that a night's fresh runs have nothing in common.

    Runs that share a night's state scatter less than nights do.
    """
    freedom = np.maximum(np.isfinite(values).sum(axis=1) - 1, 1)
    scatter, own = _scatter(values) / before.spread**2, np.maximum(1 - before.shared, LEAST_OWN)
    odds = freedom / 2 * (np.log(own) + scatter / own - scatter) + math.log(SEPARATE / (1 - SEPARATE))
    chance: Floats = 1 / (1 + np.exp(-np.clip(odds, -50.0, 50.0)))
    return chance


def _surest(change: Floats, variance: Floats, before: Baseline) -> tuple[Floats, Floats]:
    """Return the change and z, by fresh runs and as many earlier nights as maximise z.

    A series that flaps must have changed in the night before too.
    """
    sizes, z = _with_recent(change, variance, before)
    z[:, 1:] -= CHOICES_Z
    nights_before = before.of_one_mode(before.recent) * np.sign(change)[:, None]
    last = nights_before[np.arange(len(z)), np.isfinite(nights_before).argmax(axis=1)]
    z[before.flaps & ~(last > sizes[:, 0] / 2)] = 0.0
    best, rows, direction = np.argmax(np.nan_to_num(z), axis=1), np.arange(len(z)), np.sign(change)
    return direction * sizes[rows, best], direction * z[rows, best]


def _with_recent(change: Floats, variance: Floats, before: Baseline) -> tuple[Floats, Floats]:
    """Return (series, choices) of a change and z: tonight alone, with one night before, with two, …

    Both are above 0 in the change's direction. A state of one night does not last by chance. Values beyond
    tonight's change by a spread can be outliers, and are cut.
    """
    size = np.abs(change)[:, None]
    recent = before.of_one_mode(before.recent) * np.sign(change)[:, None]
    recent = np.minimum(recent, size + before.spread[:, None])
    first, each = 1 / variance[:, None], np.isfinite(recent) / before.recent_variance[:, None]
    weights = first + np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0)))
    sums = first * size + np.pad(np.cumsum(each * np.nan_to_num(recent), axis=1), ((0, 0), (1, 0)))
    error = np.sqrt(lasting(before.memory, weights.shape[1]) / weights + before.of_centre[:, None])
    sizes = sums / weights
    return sizes, sizes / (before.spread[:, None] * error)


def levels_at(panel: SeriesPanel, changes: Iterable[ConfirmedChange], column: int) -> SeriesLevels:
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
    rows = np.flatnonzero(panel.alike[:, column] & (panel.segment[:, column] == begin))
    before = panel.select(rows)
    level = levels_at(before, changes, begin - 1)
    old = baseline(before.until(begin - 1), level, before.alone, before.hardware)
    known = rows[~old.warming]
    for name, whole in BEHAVIOUR.items():
        getattr(levels, name)[known] = getattr(old, whole)[~old.warming]


def _logs(values: Sequence[Sequence[float]]) -> Floats:
    width = max(RERUNS, *(len(row) for row in values))
    seconds = np.full((len(values), width), math.nan)
    for index, row in enumerate(values):
        seconds[index, : len(row)] = row
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(seconds > 0, np.log(seconds), np.nan)
