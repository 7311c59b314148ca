"""Values with intervals, and ratios with a verdict."""

from dataclasses import dataclass
from enum import StrEnum

from workloads.harness.records.intervals import Interval


class RatioVerdict(StrEnum):
    """The verdict of a ratio: its interval lies above 1, below 1, or spans it (or there is no interval)."""

    FASTER = "faster"
    SLOWER = "slower"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval; the bounds are None where repeats are too few to give one."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, interval: Interval) -> "Estimate":
        """Take over an interval of the harness."""
        return cls(interval.value, interval.low, interval.high)

    def below(self, other: "Estimate") -> bool:
        """Return whether this interval lies wholly below another; without an interval nothing is shown."""
        return self.high is not None and other.low is not None and self.high < other.low


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio against the baseline, above 1 is better.

    Attributes:
        why: what an undecided one lacks.
        chance: of a ratio so far from 1 where nothing differs; None without an interval, or where unknown.
    """

    estimate: Estimate
    outcome: RatioVerdict
    why: str = ""
    chance: float | None = None
