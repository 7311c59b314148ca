"""Suspicion from a baseline, and its confirmation by fresh runs and the nights before."""

import numpy as np

from tasks.regressions.baseline import LEAST_CHANGE, SUSPECT_Z, Baseline
from tasks.regressions.robust import Floats, Ints, inner_range, lasting, pseudomedian

LASTING_Z = 2.5  # of tonight and the nights before together, of which there are several choices
LEAST_Z = 0.5  # of tonight alone, where they make a suspect
CHOICES_Z = 0.3  # by which the largest z of several choices is cut
# Fresh runs without their extremes must lie within so many spreads, or within half of their change.
AGREEMENT = 2.75


def suspected(log_s: Floats, log_control_s: Floats, before: Baseline) -> tuple[Ints, Floats]:
    """Return +1 for each series that seems slower in the last column, -1 for faster, else 0; and its z.

    A series without a number tonight, or with a warming baseline, is neither.
    """
    moved = before.adjusted(log_s[:, -1:], log_control_s[:, -1:])[:, 0] - before.centre
    z = np.where(before.warming, np.nan, moved / before.spread / np.sqrt(1 + before.of_centre))
    together = _with_recent(moved, np.ones(len(moved)), before)[1][:, 1:].max(axis=1, initial=-np.inf)
    beyond = (np.abs(z) > SUSPECT_Z) | ((np.abs(z) > LEAST_Z) & (together > LASTING_Z))
    beyond &= np.abs(moved) > np.log1p(LEAST_CHANGE) / 2
    return np.where(beyond, np.sign(moved), 0).astype(np.int64), z


def confirmed(
    log_s: Floats, log_control_s: Floats, before: Baseline, confirm_z: float
) -> tuple[Ints, Floats, Floats]:
    """Return +1 for each series whose fresh runs are slower, -1 for faster, else 0; the change (log); its z.

    Args:
        log_s, log_control_s: (series, runs), without the suspected night, which was selected for its value.
        before: that night's baseline.
        confirm_z: `threshold_z` of the number of watched series.
    """
    values = before.adjusted(log_s, log_control_s)
    tonight, runs = pseudomedian(values) - before.centre, np.isfinite(values).sum(axis=1)
    change, z = _surest(tonight, np.maximum(before.of_fresh(runs), _of_scatter(values, before)), before)
    agree = inner_range(values) <= np.maximum(AGREEMENT * before.spread, np.abs(change) / 2)
    large = np.minimum(np.abs(tonight), np.abs(change)) > np.log1p(LEAST_CHANGE)
    shown = (np.abs(z) > before.needed(confirm_z)) & large & agree
    return np.where(shown, np.sign(change), 0).astype(np.int64), change, z


def _of_scatter(values: Floats, before: Baseline) -> Floats:
    """Return the variance of fresh runs by how far they lie apart, in that of a night.

    It counts where they lie farther apart than the nights before: a busy machine. Few runs are a poor
    estimate, so half of it counts.
    """
    runs = np.maximum(np.isfinite(values).sum(axis=1), 2)
    apart = np.nansum((values - pseudomedian(values)[:, None]) ** 2, axis=1) / (runs - 1)
    variance: Floats = apart / before.spread**2 / runs / 2
    return variance


def _surest(change: Floats, variance: Floats, before: Baseline) -> tuple[Floats, Floats]:
    """Return the change and its z, by fresh runs and as many of the nights before as make z largest.

    A series that flaps, as on a box with slow nights, must have changed in the night before, too.
    """
    sizes, z = _with_recent(change, variance, before)
    z[:, 1:] -= CHOICES_Z
    nights_before = before.recent * np.sign(change)[:, None]
    last = nights_before[np.arange(len(z)), np.isfinite(nights_before).argmax(axis=1)]
    z[before.flaps & ~(last > sizes[:, 0] / 2)] = 0.0
    best, rows, direction = np.argmax(np.nan_to_num(z), axis=1), np.arange(len(z)), np.sign(change)
    return direction * sizes[rows, best], direction * z[rows, best]


def _with_recent(change: Floats, variance: Floats, before: Baseline) -> tuple[Floats, Floats]:
    """Return (series, choices) of a change by tonight alone, with one night before, with two, …; and z.

    Both are above 0 in the change's direction. A change that began some nights ago is in those nights, too,
    and not in the baseline, which leaves them out. A state that all runs of a night share does not last so
    long by chance. What exceeds tonight's change by more than a spread may be an outlier, and is cut to that.

    Args:
        variance: of tonight's number, in that of a night.
    """
    size = np.abs(change)[:, None]
    recent = np.minimum(before.recent * np.sign(change)[:, None], size + before.spread[:, None])
    first, each = 1 / variance[:, None], np.isfinite(recent) / before.of_recent[:, None]
    weights = first + np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0)))
    sums = first * size + np.pad(np.cumsum(each * np.nan_to_num(recent), axis=1), ((0, 0), (1, 0)))
    error = np.sqrt(lasting(before.memory, weights.shape[1]) / weights + before.of_centre[:, None])
    sizes = sums / weights
    return sizes, sizes / (before.spread[:, None] * error)
