"""How far two or three sets of processes are apart, where none has a history: robust, by quantiles of t.

All values are natural logarithms of seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tasks.regressions.baseline import LEAST_CHANGE, LEAST_SPREAD, RERUN_VARIANCE, threshold_z
from tasks.regressions.robust import PSEUDOMEDIAN_VARIANCE, pseudomedian, spread
from tasks.results.values import Estimate
from workloads.harness.records.intervals import t_quantile

CONFIRM_P = NormalDist().cdf(threshold_z(1))  # of the quantile that a change must exceed
INTERVAL_P = 0.975  # of the bounds of a 95 % interval


@dataclass(frozen=True, slots=True)
class Move:
    """A change between two sets of processes.

    Attributes:
        change: log seconds now, minus those before.
        error: its standard error, by the spread of both sides.
        freedom: degrees of freedom of that spread.
    """

    change: float
    error: float
    freedom: int

    def half(self, p: float) -> float:
        """Half-width of its interval whose upper bound is the quantile p of t."""
        return t_quantile(p, self.freedom) * self.error

    @property
    def confirmed(self) -> bool:
        """Whether the gate would confirm it: beyond chance, and beyond what nobody would act on."""
        return abs(self.change) > max(self.half(CONFIRM_P), math.log1p(LEAST_CHANGE))

    @property
    def smallest(self) -> float:
        """The share by which the time must change to be told with even odds."""
        return math.expm1(max(self.half(CONFIRM_P), math.log1p(LEAST_CHANGE)))

    @property
    def share(self) -> Estimate:
        """The change as a share of the seconds before, with its 95 % interval."""
        half = self.half(INTERVAL_P)
        return Estimate(*(math.expm1(self.change + far) for far in (0.0, -half, half)))


def centre(values: Sequence[float]) -> float:
    """Where some values are, whatever one or two stray ones say."""
    return float(pseudomedian(np.array([values], dtype=np.float64))[0])


def spread_within(sets: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Standard deviation of a value around the centre of its own set, and its degrees of freedom.

    Each set needs one value, and one of them two.
    """
    left = np.concatenate([np.asarray(values, dtype=np.float64) - centre(values) for values in sets])
    freedom = len(left) - len(sets)
    found = float(spread(left[None, :], np.zeros(1))[0]) * math.sqrt(len(left) / freedom)
    return max(found, LEAST_SPREAD), freedom


def moved(now: Sequence[float], before: Sequence[float]) -> Move:
    """How far one set is from another, of three values or more each."""
    sd, freedom = spread_within((now, before))
    error = sd * math.sqrt(_variance(len(now)) + _variance(len(before)))
    return Move(centre(now) - centre(before), error, freedom)


def from_middle(own: Sequence[float], one: Sequence[float], other: Sequence[float]) -> Move:
    """How far a set is from the middle between two others."""
    sd, freedom = spread_within((own, one, other))
    ends = (_variance(len(one)) + _variance(len(other))) / 4
    error = sd * math.sqrt(_variance(len(own)) + ends)
    return Move(centre(own) - (centre(one) + centre(other)) / 2, error, freedom)


def _variance(count: int) -> float:
    """Variance of the pseudomedian of so many standard normal values."""
    return RERUN_VARIANCE.get(count, PSEUDOMEDIAN_VARIANCE / count)
