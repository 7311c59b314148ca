"""Predictions kept before their machine was measured."""

import math
import statistics
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from tasks.results.billing import usd
from tasks.results.values import Estimate
from tasks.schema import Strict

LEVEL = 0.9  # of the intervals
STEPS = 1000  # whose cost is shown
NORMAL_90 = 1.645  # standard deviations of half a 90 % interval
Text = Annotated[str, Field(max_length=1000)]
Time = Annotated[float, Field(gt=0, le=1e9)]


class Forecast(Strict):
    """The predicted time of a step.

    Attributes:
        source: the hardware that measured `case`.
        card: the GPU's model, or a CPU's hardware.
        bound: the step's largest part.
        low_s, high_s: the 90 % interval.
        widened: the interval's factor from earlier forecasts, on the log.
        made_at: UTC, ISO 8601.
        usd_per_hour: 0 if free or unknown.
        reach: its name for `--on`.
    """

    hardware: Text
    case: Text
    source: Text
    card: Text
    bound: Text
    low_s: Time
    value_s: Time
    high_s: Time
    widened: Annotated[float, Field(ge=1, le=1e6)] = 1.0
    made_at: Text
    usd_per_hour: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    reach: Text = ""
    rests_on: Text = ""

    @property
    def log_sd(self) -> float:
        return math.log(self.high_s / self.low_s) / (2 * NORMAL_90)

    @property
    def step_s(self) -> Estimate:
        return Estimate(self.value_s, self.low_s, self.high_s)

    @property
    def usd(self) -> Estimate:
        """Return the cost of `STEPS` steps."""
        return self.step_s.mapped(lambda step_s: usd(STEPS * step_s, self.usd_per_hour))

    def holds(self, measured_s: float) -> bool:
        return self.low_s <= measured_s <= self.high_s

    def miss(self, measured_s: float) -> float:
        """Return the log error in half-widths of the original interval."""
        bound_s = self.high_s if measured_s > self.value_s else self.low_s
        half = max(abs(math.log(bound_s / self.value_s)), 1e-9)
        return abs(math.log(measured_s / self.value_s)) / half * self.widened


Scored = Sequence[tuple[Forecast, float]]
"""Forecasts with the times that were measured later."""


def widening(scored: Scored) -> float:
    """Return the factor, at least 1, for intervals to hold 90 % of measured times.

    Below 9 forecasts no finite factor is valid: return 1. Source: split conformal prediction, Vovk, Gammerman
    and Shafer 2005: the k-th smallest score, k = ⌈0.9 (n + 1)⌉.
    """
    misses = sorted(forecast.miss(measured_s) for forecast, measured_s in scored)
    rank = math.ceil(LEVEL * (len(misses) + 1))
    return max(misses[rank - 1], 1.0) if rank <= len(misses) else 1.0


def held(scored: Scored) -> float:
    """Return the share of times within their intervals."""
    return statistics.fmean(forecast.holds(measured_s) for forecast, measured_s in scored)


def typical_error(scored: Scored) -> float:
    """Return the median error as a share."""
    return statistics.median(abs(f.value_s / measured_s - 1) for f, measured_s in scored)
