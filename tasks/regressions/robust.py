"""Robust statistics of rows; NaN is a missing value."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.harness.records.intervals import MAD_TO_SD

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DECILES_TO_SD = 2.5631  # from the 10 % to the 90 % quantile of a normal distribution
PAIRS_TO_SD = 2.2219  # 1 / the 25 % quantile of the distance of two standard normal values
# Factors that make Qn unbiased for few normal values, by their number; a test repeats their simulation.
# Source: C. Croux and P. J. Rousseeuw, Time-efficient algorithms for two highly robust estimators of scale, 1992.
FEW_PAIRS = {2: 0.399, 3: 0.994, 4: 0.512, 5: 0.844, 6: 0.611, 7: 0.857, 8: 0.669, 9: 0.872}
CHANCE_Z = 2.0  # exceeded by 1 in 40 series without memory
LIKELY_Z = 1.0  # exceeded by 1 in 6 of them; used if overlooked memory costs more than falsely found memory
MOST_MEMORY = 0.9
FEWEST_OF_MODES = 20  # fewest values that can show two modes
FAIR_SHARE = 0.2  # least share of the values in each mode
ALTERNATING = 0.25  # least share of the values in the other mode than the one before
LEFT_BY_MODES = 0.30  # most of the variance around two modes; of a normal distribution 1 - 2/π is left
LEAST_SPREAD = 1e-3  # assumed lower limit of any spread
# Variance of a pseudomedian of many normal values, relative to their mean's. Source: Hodges and Lehmann, 1963.
PSEUDOMEDIAN_VARIANCE = np.pi / 3
# Variance of the median of 1, 2, 3, … standard normal values; of more it is π/2 over their number. By
# simulation, which a test repeats.
MEDIAN_VARIANCE = (1.0, 0.5, 0.449, 0.298, 0.287, 0.215, 0.211, 0.168, 0.166, 0.138)


def half_of(values: Floats) -> Floats:
    """Return medians; NaN for an empty row."""
    return _quantile(np.sort(values, axis=1), _count(values), 0.5)


def median_variance(count: int) -> float:
    """Return the variance of the median of `count` standard normal values."""
    return MEDIAN_VARIANCE[count - 1] if count <= len(MEDIAN_VARIANCE) else math.pi / 2 / count


def typical_variance(variance: float, count: int) -> float:
    """Return a variance scaled so that the median of many such is the true one.

    Source: Wilson and Hilferty, The distribution of chi-square, 1931.
    """
    return variance / (1 - 2 / (9 * (count - 1))) ** 3


def centre(values: Sequence[float]) -> float:
    """Return the pseudomedian, which one or two outliers hardly move."""
    return float(pseudomedian(np.array([values], dtype=np.float64))[0])


def spread_within(sets: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation around each set's centre, and its degrees of freedom.

    Outliers hardly move it, unlike `pooled_variance`. Each set needs one value, one of them two.
    """
    left = np.concatenate([np.asarray(values, dtype=np.float64) - centre(values) for values in sets])
    freedom = len(left) - len(sets)
    sd = float(spread(left[None, :], np.zeros(1))[0]) * math.sqrt(len(left) / freedom)
    return max(sd, LEAST_SPREAD), freedom


def spread_of_pairs(values: Sequence[float]) -> float:
    """Return Qn, a quartile of the distances between pairs.

    It withstands half of the values at another level; the MAD does not. Source: Rousseeuw and Croux,
    Alternatives to the median absolute deviation, 1993.
    """
    count = len(values)
    kept = count // 2 + 1
    first, second = np.triu_indices(count, 1)
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    distances = np.sort(ordered[second] - ordered[first])
    factor = FEW_PAIRS.get(count) or count / (count + (1.4 if count % 2 else 3.8))
    return factor * PAIRS_TO_SD * float(distances[kept * (kept - 1) // 2 - 1])


def trimmed_mean(values: Floats, share: float) -> Floats:
    """Cut `share` at each end."""
    ordered, count = np.sort(values, axis=1), _count(values)
    cut, rank = np.floor(share * count)[:, None], np.arange(values.shape[1])
    kept = (rank >= cut) & (rank < count[:, None] - cut)
    total = np.where(kept, ordered, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(kept.sum(axis=1), 1), np.nan)


def pseudomedian(values: Floats) -> Floats:
    """Return the Hodges-Lehmann estimate: the median of all pairs' means.

    One outlier in five hardly moves it. Source: Hodges and Lehmann, Estimates of location based on rank
    tests, 1963.
    """
    first, second = np.triu_indices(values.shape[1])
    return half_of((values[:, first] + values[:, second]) / 2)


def inner_range(values: Floats) -> Floats:
    """Return the range without extremes; 0 for fewer than 4 values."""
    ordered, count = np.sort(values, axis=1), _count(values)
    rows = np.arange(len(values))
    low, high = np.minimum(1, values.shape[1] - 1), np.maximum(count - 2, 0)
    return np.where(count >= 4, ordered[rows, high] - ordered[:, low], 0.0)


def spread(values: Floats, centre: Floats) -> Floats:
    """Return the standard deviation: the mean of those by deciles and by MAD.

    Deciles withstand one outlier in ten, the MAD two kinds of machine.
    """
    ordered, count = np.sort(values, axis=1), _count(values)
    deciles = _quantile(ordered, count, 0.9) - _quantile(ordered, count, 0.1)
    return (deciles / DECILES_TO_SD + MAD_TO_SD * half_of(np.abs(values - centre[:, None]))) / 2


def two_modes(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the middle of two modes, half their distance, and the spread around each.

    The distance is 0 for one mode. A row has two if the best split leaves little variance, both sides have a
    fair share, and values alternate, unlike a step's. Source: W. D. Fisher, On grouping for maximum
    homogeneity, 1958.
    """
    if not values.shape[1]:
        return np.full(len(values), np.nan), np.zeros(len(values)), np.zeros(len(values))
    ordered, count = np.sort(values, axis=1), _count(values)
    shifted = np.where(np.isfinite(ordered), ordered - ordered[:, :1], 0.0)
    low, number = np.arange(1, values.shape[1] + 1), count[:, None]
    high = np.maximum(number - low, 1)
    sums, squares = np.cumsum(shifted, axis=1), (shifted**2).sum(axis=1)
    left = squares[:, None] - sums**2 / low - (sums[:, -1:] - sums) ** 2 / high
    best, rows = np.argmin(np.where(low < number, left, np.inf), axis=1), np.arange(len(values))
    least, below = left[rows, best], sums[rows, best]
    levels = below / low[best], (sums[:, -1] - below) / high[rows, best]
    middle: Floats = ordered[:, 0] + (levels[0] + levels[1]) / 2
    side = np.where(np.isfinite(values), np.sign(values - middle[:, None]), 0.0)
    total = squares - sums[:, -1] ** 2 / np.maximum(count, 1)
    shown = (count >= FEWEST_OF_MODES) & (least < LEFT_BY_MODES * total)
    shown &= np.minimum(low[best], count - low[best]) >= FAIR_SHARE * count
    shown &= (side[:, 1:] * side[:, :-1] < 0).sum(axis=1) >= ALTERNATING * count
    deviation = np.sqrt(np.where(shown, least, 0.0) / np.maximum(count - 2, 1))
    return middle, np.where(shown, (levels[1] - levels[0]) / 2, 0.0), deviation


def slope(values: Floats, on: Floats) -> tuple[Floats, Ints]:
    """Return the least-squares slope, 0 to 1, and its pairs."""
    both = np.isfinite(values) & np.isfinite(on)
    count = both.sum(axis=1)
    x, y = _centred(on, both), _centred(values, both)
    variance = (x * x).sum(axis=1)
    fitted = np.divide((x * y).sum(axis=1), variance, out=np.zeros_like(variance), where=variance > 0)
    slopes: Floats = np.clip(fitted, 0.0, 1.0)
    return slopes, count


def memory(scores: Floats) -> Floats:
    """Return the correlation of neighbours; 0 if by chance."""
    scores = np.clip(scores, -3.0, 3.0)
    before, after = scores[:, :-1], scores[:, 1:]
    both = np.isfinite(before) & np.isfinite(after)
    total = np.where(np.isfinite(scores), scores**2, 0.0).sum(axis=1)
    product = np.where(both, before * after, 0.0).sum(axis=1)
    correlation = np.divide(product, total, out=np.zeros_like(total), where=total > 0)
    shown = correlation * np.sqrt(both.sum(axis=1)) > LIKELY_Z
    return np.where(shown, np.clip(correlation, 0.0, MOST_MEMORY), 0.0)


def without_tails(values: Floats, far: float, beside: int) -> Floats:
    """Cut values to the distance `far` from the median of `beside` neighbours.

    Else a few outliers together would look like a new level. A step stays.
    """
    around = np.lib.stride_tricks.sliding_window_view(np.pad(values, beside, mode="reflect"), 2 * beside + 1)
    usual = np.median(around, axis=1)
    clipped: Floats = np.clip(values, usual - far, usual + far)
    return clipped


def first_columns(usable: Bools, low: Ints, high: Ints | int, most: int) -> Ints:
    """Return (rows, most) the first usable columns from `low` to `high`; -1 for none."""
    columns = np.arange(usable.shape[1])
    inside = usable & (columns >= low[:, None]) & (columns < np.reshape(high, (-1, 1)))
    order = np.argsort(~inside, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(inside, order, axis=1), order, -1)


def lasting(correlation: Floats, most: int) -> Floats:
    """Return (rows, most) factors by which neighbours' correlation increases a mean's variance.

    The columns are for means of 1, 2, … neighbours of an AR(1).
    """
    count, lags = np.arange(1, most + 1), np.arange(1, most)
    shares = np.clip(1 - lags / count[:, None], 0.0, None)
    of_means: Floats = 1 + 2 * correlation[:, None] ** lags @ shares.T
    return of_means


def _centred(values: Floats, there: NDArray[np.bool_]) -> Floats:
    count = np.maximum(there.sum(axis=1, keepdims=True), 1)
    mean = np.where(there, values, 0.0).sum(axis=1, keepdims=True) / count
    return np.where(there, values - mean, 0.0)


def _count(values: Floats) -> Ints:
    count: Ints = np.isfinite(values).sum(axis=1)
    return count


def _quantile(ordered: Floats, count: Ints, share: float) -> Floats:
    """Return a quantile of sorted rows, NaNs last.

    Source: Hyndman and Fan, Sample quantiles in statistical packages, 1996, definition 8.
    """
    last = np.maximum(count - 1, 0)
    rank = np.clip(share * (count + 1 / 3) - 2 / 3, 0, last)
    low, rows = np.floor(rank).astype(np.int64), np.arange(len(ordered))
    below = ordered[rows, low]
    quantile: Floats = below + (rank - low) * (ordered[rows, np.minimum(low + 1, last)] - below)
    return quantile
