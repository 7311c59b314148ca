"""Times that approach a level, and their distance from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.harness.engine.sampling.mean import variance_growth

if TYPE_CHECKING:
    from workloads.harness.engine.sampling.mean import Floats

FEWEST = 8  # values that a curve is fitted to
SHOWN = 3.0  # standard errors of the height, above which chance does not explain a ramp
SHORTEST, LONGEST, TAUS = 1 / 32, 4.0, 15  # time constants in lengths of the stream, and how many are tried
ONSETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # when it begins, in lengths of the stream: heat and power act late
CLIPPED = 1.5  # times the median, or its inverse: the curve ignores interruptions
FIRST = 4  # the first quarter of the warm-up is left out, because first calls are slow


@dataclass(frozen=True, slots=True)
class Ramp:
    """The least-squares curve through times: level + b exp(-t / tau), flat until its onset.

    Attributes:
        above: distance of each value of the curve above its level, in seconds.
    """

    above: Floats

    def above_mean(self, count: int) -> list[float]:
        """Return the curve's seconds above its mean over the last `count` values."""
        apart: list[float] = (self.above - self.above[-count:].mean()).tolist()
        return apart

    def to_come(self, mean_s: float, count: int) -> float:
        """Return by what share of `mean_s` the level is slower than the last `count` values."""
        return -float(self.above[-count:].mean()) / mean_s

    def fall(self, mean_s: float, count: int) -> float:
        """Return the curve's change over the last `count` values, as a share of `mean_s`."""
        return abs(float(self.above[-count] - self.above[-1])) / mean_s

    def drift(self, mean_s: float, count: int) -> float:
        half = max(count // 2, 1)
        last = self.above[-count:]
        return float(last[-half:].mean() - last[:half].mean()) / mean_s


def ramp(values_s: Sequence[float]) -> Ramp | None:
    """Return the ramp through successive times, each as long as it says; None if chance explains it.

    Level and height are least squares for each onset and time constant; the standard error of the height
    allows for correlated residuals.
    Source: G. H. Golub and V. Pereyra, Nonlinear least squares problems whose variables separate, SIAM
    Journal on Numerical Analysis 10, 1973.
    """
    count = len(values_s)
    if count < FEWEST:
        return None
    import numpy as np

    values = np.asarray(values_s, float)
    ends = np.cumsum(values)
    usual = float(np.median(values))
    values = values.clip(usual / CLIPPED, usual * CLIPPED)
    since = (ends - ends[0]) / (ends[-1] - ends[0]) - np.repeat(ONSETS, TAUS)[:, None]
    taus = np.tile(np.geomspace(SHORTEST, LONGEST, TAUS), len(ONSETS))[:, None]
    decays = np.exp(-np.maximum(since, 0.0) / taus)
    centred, apart = values - values.mean(), decays - decays.mean(axis=1, keepdims=True)
    power = (apart**2).sum(axis=1)
    heights = apart @ centred / power
    best = int(np.argmax(heights**2 * power))
    rest = centred - heights[best] * apart[best]
    error = math.sqrt(float(rest @ rest) / (count - 3) / power[best] * variance_growth(rest.tolist()))
    if abs(heights[best]) <= SHOWN * error:
        return None
    return Ramp(heights[best] * decays[best])
