"""Statistics of samples and repeats, in plain Python."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from operator import mul

MAD_TO_SD = 1.4826  # a normal distribution's standard deviation over its median absolute deviation

_MOST_LOG = 709  # of the largest float
_FEWEST_TO_CORRELATE = 10  # samples
_FEWEST_BATCHES = 3
_NORMAL = 1e6  # degrees of freedom from which Student's t is the normal distribution to six digits
_MOST_STEPS = 100  # of Newton's method, which needs about five, and some more for extreme quantiles


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence bounds, in its own unit."""

    value: float
    low: float
    high: float


@lru_cache(maxsize=1024)
def _median_rank(n: int, confidence: float) -> int | None:
    tail, k = 0.0, 0
    while True:
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
        if tail > (1 - confidence) / 2 or 2 * k >= n:
            return k or None
        k += 1


def median_interval(
    samples: Sequence[float], confidence: float = 0.95, inefficiency: float = 1.0
) -> Interval | None:
    """Return the order-statistic interval of the median: distribution-free, at least of nominal coverage.

    Of correlated samples, `inefficiency` count as one. None with too few samples (below 6 for 95 %).
    Source: David & Nagaraja, Order Statistics, section 7.1.
    """
    alone = int(len(samples) / inefficiency)
    rank = _median_rank(alone, confidence)
    if rank is None:
        return None
    ordered, rank = sorted(samples), max(rank * len(samples) // alone, 1)
    return Interval(statistics.median(ordered), ordered[rank - 1], ordered[-rank])


def inefficiency(samples: Sequence[float]) -> float:
    """Return the number of samples that say as much of the median as an independent one; 1 below 10 samples.

    It is the integrated autocorrelation time of the signs about the median.
    Source: P. Heidelberger and P. A. W. Lewis, Quantile estimation in dependent sequences, Operations Research 32,
    1984.
    """
    count = len(samples)
    if count < _FEWEST_TO_CORRELATE:
        return 1.0
    middle = statistics.median(samples)
    signs = [(value > middle) - (value < middle) for value in samples]
    return correlation_time(pairs_of_lags(signs))


def correlation_time(pairs: Iterable[float]) -> float:
    """Return the integrated autocorrelation time: the factor on the mean's variance.

    `pairs` are autocorrelations at lags 0 and 1 summed, then 2 and 3, and so on.
    Source: C. J. Geyer, Practical Markov chain Monte Carlo, Statistical Science 7, 1992, section 3.3.
    """
    positive: Iterator[float] = takewhile(lambda pair: pair > 0, pairs)
    return max(2 * math.fsum(positive) - 1, 1.0)


def pairs_of_lags(deviations: Sequence[float]) -> Iterator[float]:
    """Yield autocorrelations, two lags summed, from 0 and 1 on."""
    power = sum(map(mul, deviations, deviations)) or 1
    for lag in range(0, len(deviations) - 1, 2):
        both = (sum(map(mul, deviations, deviations[lag + more :])) for more in (0, 1))
        yield sum(both) / power


def mean_interval(batches: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the mean of batch means with its t-interval; None below three batches.

    Source: A. M. Law and W. D. Kelton, Simulation Modeling and Analysis, section 9.5.3 (batch means).
    """
    if len(batches) < _FEWEST_BATCHES:
        return None
    mean, half = math.fsum(batches) / len(batches), half_of_mean(batches, confidence)
    return Interval(mean, mean - half, mean + half)


def half_of_mean(values: Sequence[float], confidence: float = 0.95) -> float:
    """Return half of the t-interval of independent values' mean.

    Source: Student, The probable error of a mean, Biometrika 6, 1908.
    """
    return t_quantile(0.5 + confidence / 2, len(values) - 1) * math.sqrt(variance(values) / len(values))


def outliers(samples: Sequence[float]) -> tuple[int, int]:
    """Count Tukey's mild (1.5 IQR) and severe (3 IQR) outliers; none is dropped."""
    if len(samples) < 4:
        return 0, 0
    q1, _, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    reach = q3 - q1
    severe = sum(1 for s in samples if s < q1 - 3 * reach or s > q3 + 3 * reach)
    beyond = sum(1 for s in samples if s < q1 - 1.5 * reach or s > q3 + 1.5 * reach)
    return beyond - severe, severe


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return the quantile of Student's t, by Newton's method on its distribution function.

    The function is concave above 0 and the start, a bound by the normal quantile, is at most the root; so is
    each step.
    Source of the bound: D. L. Wallace, Bounds on normal approximations to Student's and the chi-square
    distributions, 1959.

    Raises:
        ValueError: p is not inside (0, 1) or df is not positive.
    """
    if not 0 < p < 1 or df <= 0:
        raise ValueError(f"t_quantile needs 0 < p < 1 and df > 0, got p={p}, df={df}")
    df = min(df, _NORMAL)
    if p < 0.5:
        return -t_quantile(1 - p, df)
    log_top = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    t = math.sqrt(df * math.expm1(min(statistics.NormalDist().inv_cdf(p) ** 2 / df, _MOST_LOG)))
    for _ in range(_MOST_STEPS):
        density = math.exp(log_top - (df + 1) / 2 * math.log1p(t * t / df))
        step = (p - _t_cdf(t, df)) / density
        t += step
        if abs(step) <= 1e-13 * t:
            break
    return t


def t_tail(t: float, df: float) -> float:
    df = min(df, _NORMAL)
    return _beta_fraction(df / (df + t * t), df / 2, 0.5) / 2


def _t_cdf(t: float, df: float) -> float:
    return 1 - t_tail(t, df)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by Lentz's continued fraction (Numerical Recipes, 6.4)."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_fraction(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1), tiny)
    result = d
    for m in range(1, 500):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + step * d, tiny)
            c = _away(1 + step / c, tiny)
            result *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * result / a


def _away(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


def _exp(log: float) -> float:
    return math.exp(log) if log < _MOST_LOG else math.inf


def log_mean_interval(times: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the geometric mean of repeats' medians with its t-interval; None below two.

    The repeat is the unit of replication: intervals of one process's pooled samples are far too narrow.
    """
    if len(times) < 2:
        return None
    logs = [math.log(t) for t in times]
    centre, half = statistics.fmean(logs), half_of_mean(logs, confidence)
    return Interval(*map(_exp, (centre, centre - half, centre + half)))


def ratio_interval(
    over: Sequence[float],
    under: Sequence[float],
    confidence: float = 0.95,
    added: Sequence[tuple[float, float]] = (),
) -> Interval | None:
    """Return the ratio of geometric means by Welch's t on logs; None below two repeats a side.

    Source: B. L. Welch, The generalization of Student's problem, Biometrika 34, 1947.

    Args:
        added: variances of the log ratio that repeats do not show, each with its degrees of freedom.
    """
    if len(over) < 2 or len(under) < 2:
        return None
    centre, *errors = _welch(over, under, added)
    half = widest(errors, 0.5 + confidence / 2)
    return Interval(*map(_exp, (centre, centre - half, centre + half)))


def ratio_p(
    over: Sequence[float],
    under: Sequence[float],
    factor: float = 1.0,
    added: Sequence[tuple[float, float]] = (),
) -> float | None:
    """Return the p-value of a ratio other than 1, times `factor`; None as above."""
    if len(over) < 2 or len(under) < 2:
        return None
    centre, *errors = _welch(over, under, added)
    return likeliest(centre + math.log(factor), errors)


def two_sided_p(distance: float, error: float, df: float) -> float:
    if not error > 0:
        return float(distance == 0)
    return 2 * t_tail(abs(distance) / error, df)


def widest(errors: Sequence[tuple[float, float]], p: float) -> float:
    """Return the largest product of t-quantile and error: a further error must not narrow the interval."""
    return max(t_quantile(p, df) * error if error > 0 else 0.0 for error, df in errors)


def likeliest(distance: float, errors: Sequence[tuple[float, float]]) -> float:
    return max(two_sided_p(distance, error, df) for error, df in errors)


def errors_of(
    own: Sequence[tuple[float, float]], added: Sequence[tuple[float, float]] = ()
) -> list[tuple[float, float]]:
    """Return standard error and degrees of freedom of a sum, without and with `added`.

    Source: F. E. Satterthwaite, An approximate distribution of estimates of variance components, 1946.
    """
    errors = []
    for parts in ([*own], [*own, *added])[: 2 if added else 1]:
        spread = math.fsum(part for part, _ in parts)
        squares = math.fsum(part**2 / df for part, df in parts)
        errors.append((math.sqrt(spread), spread**2 / squares if squares > 0 else math.inf))
    return errors


def _welch(
    over: Sequence[float], under: Sequence[float], added: Sequence[tuple[float, float]]
) -> tuple[float, *tuple[tuple[float, float], ...]]:
    sides = [math.log(t) for t in over], [math.log(t) for t in under]
    own = [(variance(side) / len(side), len(side) - 1.0) for side in sides]
    return statistics.fmean(sides[0]) - statistics.fmean(sides[1]), *errors_of(own, added)


def pooled_variance(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of variances, weighted by degrees of freedom, and their sum; else (0, 0).

    Source: M. S. Bartlett, Properties of sufficiency and statistical tests, 1937.
    """
    known = [(value, freedom) for value, freedom in parts if freedom > 0]
    total = math.fsum(freedom for _, freedom in known)
    return (math.fsum(value * freedom for value, freedom in known) / total if known else 0.0), total


def variances(groups: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
    return [(variance(values), len(values) - 1.0) for values in groups if len(values) > 1]


def variance(values: Sequence[float]) -> float:
    """Return the sample variance, 30 times as fast as `statistics.variance`."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
