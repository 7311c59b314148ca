"""Values with intervals, ratios with verdicts."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from workloads.harness.records.intervals import Interval


class RatioVerdict(StrEnum):
    """A ratio above 1, below 1, or undecided."""

    FASTER = "faster"
    SLOWER = "slower"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval; no bounds for too few repeats."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, interval: Interval) -> "Estimate":
        return cls(interval.value, interval.low, interval.high)

    def mapped(self, function: Callable[[float], float]) -> "Estimate":
        """Apply a monotonic function."""
        low, high = (None if bound is None else function(bound) for bound in (self.low, self.high))
        if low is not None and high is not None and low > high:
            low, high = high, low
        return Estimate(function(self.value) or 0.0, low, high)  # no change is 0, not -0

    def below(self, other: "Estimate") -> bool:
        """Return whether the whole interval lies below another."""
        return self.high is not None and other.low is not None and self.high < other.low


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio against the baseline; above 1 is better.

    Attributes:
        estimate: not corrected for other ratios.
        outcome: corrected for all ratios.
        why: the reason if undecided, with advice.
        chance: the p value.
        repeats_needed: if a sensible number would decide it.
        equal: undecided, since equal within a few percent.
        repeats: of the side with fewer.
        sessions_sd: of its log, which the interval includes.
    """

    estimate: Estimate
    outcome: RatioVerdict
    why: str = ""
    chance: float | None = None
    repeats_needed: int | None = None
    equal: bool = False
    repeats: int | None = None
    sessions_sd: float = 0.0

    @property
    def differs_alone(self) -> bool:
        """Return whether its own interval excludes 1, but the corrected one does not."""
        low, high = self.estimate.low, self.estimate.high
        excluded = low is not None and high is not None and not low <= 1 <= high
        return excluded and self.outcome is RatioVerdict.UNDECIDED
