"""The mean of samples and its interval, also for correlated samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from workloads.harness.records.intervals import Interval, correlation_time, mean_interval

if TYPE_CHECKING:  # it takes a tenth of a second, which commands that measure nothing need not wait for
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
NOTABLE = 0.5  # standard errors above 0 from which a correlation of neighbours counts, at its upper bound
UPPER = 1.0  # standard errors of that bound
NEGLIGIBLE = 5e-4  # of the mean: a spread that bounds it, and that a clock's resolution can make
MOST = 0.999  # correlation of neighbours
LENGTH = 2.0  # of a batch, in inefficiencies above 1: the means of two neighbours are then nearly independent


@dataclass(frozen=True, slots=True)
class MeanBounds:
    """The 95 % interval of a mean by `batches` independent batches of `size` samples; None below three."""

    interval: Interval | None
    batches: int
    size: int


def mean_bounds(
    samples: Sequence[float], earlier: Sequence[float] = (), bias: float = 0.0, size: int | None = None
) -> MeanBounds:
    """Return the mean of samples with its 95 % interval by batches.

    Args:
        earlier: values just before the samples, which also show the correlation.
        bias: further error of the mean, which widens the interval on both sides.
    """
    size = size or batch_size([*earlier, *samples])
    count = len(samples) // size
    found = mean_interval(batch_means(samples[len(samples) - count * size :], size))
    if found is None:
        return MeanBounds(None, count, size)
    mean, half = math.fsum(samples) / len(samples), (found.high - found.low) / 2 + bias
    return MeanBounds(Interval(mean, mean - half, mean + half), count, size)


def batch_means(values: Sequence[float], size: int) -> list[float]:
    starts = range(0, len(values) - size + 1, size)
    return [math.fsum(values[start : start + size]) / size for start in starts]


def batch_size(values: Sequence[float]) -> int:
    """Return the number of successive values whose means are nearly independent.

    Source: J. M. Flegal and G. L. Jones, Batch means and spectral variance estimators in Markov chain Monte
    Carlo, Annals of Statistics 38, 2010.
    """
    import numpy as np

    if len(values) < 2 or np.std(values) <= NEGLIGIBLE * abs(np.mean(values)):
        return 1
    return max(math.ceil(LENGTH * (variance_growth(values) - 1)), 1)


def variance_growth(values: Sequence[float]) -> float:
    """Return the factor by which correlation raises the variance of these values' mean.

    It is the integrated autocorrelation time, and at least that of a first-order process with the upper bound
    of the neighbours' correlation, because few values show too little of it.
    Source: F. H. C. Marriott and J. A. Pope, Bias in the estimation of autocorrelations, Biometrika 41, 1954.
    """
    correlations = autocorrelations(values)
    count = len(values)
    if len(correlations) < 2:
        return 1.0
    pairs = correlations[: len(correlations) // 2 * 2].reshape(-1, 2).sum(axis=1)
    growth = correlation_time(accumulate(pairs.tolist(), min))
    first, error = float(correlations[1]), 1 / math.sqrt(count)
    if first + error**2 < NOTABLE * error:
        return growth
    known = first + (1 + 3 * max(first, 0.0)) / count + UPPER * math.sqrt(max(1 - first**2, 0.0)) * error
    bound = min(known, MOST)
    return max(growth, (1 + bound) / (1 - bound))


def autocorrelations(values: Sequence[float]) -> Floats:
    """Return one per lag, from 0 on; empty for equal values."""
    import numpy as np

    centred = np.asarray(values, float) - np.mean(values) if len(values) else np.empty(0)
    power = float(centred @ centred)
    if power <= 0:
        return np.empty(0)
    spectrum = np.fft.rfft(centred, 2 * len(centred))
    products: Floats = np.fft.irfft((spectrum * spectrum.conj()).real)[: len(centred)]
    return products / power
