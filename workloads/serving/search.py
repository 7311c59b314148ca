"""Find the largest rate of requests that keeps a promise."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workloads.serving.client import ServedAnswer
from workloads.serving.play import PlaySummary
from workloads.serving.promise import Judged, Promise, PromiseVerdict, judge

PRECISION = 0.05  # of the largest rate: the search ends when the rates on both sides are that close
GROWTH = 2.0
MOST_RATE = 100_000.0
LEAST_SHARE = 1 / 32  # of the first rate: a server that breaks a promise there breaks it at any rate


@dataclass(frozen=True, slots=True)
class RateTrial:
    """A rate that was tried.

    Attributes:
        rate: offered requests per second.
        reason: why the point is undecided despite enough answers.
    """

    rate: float
    summary: PlaySummary
    judged: tuple[Judged, ...]
    reason: str | None = None

    @property
    def verdict(self) -> PromiseVerdict:
        """Whether this rate is shown to keep all promises, or to break one."""
        if self.reason:
            return PromiseVerdict.UNDECIDED
        verdicts = {held.verdict for held in self.judged}
        return next(
            (v for v in (PromiseVerdict.BROKEN, PromiseVerdict.UNDECIDED) if v in verdicts),
            PromiseVerdict.KEPT,
        )

    @property
    def is_met(self) -> bool:
        """True if the answers are within the promises, and the queue did not grow."""
        return not self.summary.grows and all(held.quantile_s <= held.promise.limit_s for held in self.judged)


def point(
    rate: float, answers: Sequence[ServedAnswer], promises: Sequence[Promise], summary: PlaySummary
) -> RateTrial:
    """Return a rate with its answers' verdict on each promise."""
    reason = None
    if summary.is_late or summary.is_busy:
        share = "" if summary.cpu_share is None else f" and used {summary.cpu_share:.0%} of a CPU"
        reason = f"the load generator was the bottleneck: it was {1000 * summary.late_s:.1f} ms late{share}"
    elif summary.grows:
        reason = "more and more requests were open: the server does not keep this rate up"
    return RateTrial(rate, summary, tuple(judge(promise, answers) for promise in promises), reason)


def is_decided(promises: Sequence[Promise]) -> Callable[[Sequence[ServedAnswer]], bool]:
    """Return a rule that ends a play: one promise is broken, or all are kept."""

    def rule(answers: Sequence[ServedAnswer]) -> bool:
        verdicts = [judge(promise, answers).verdict for promise in promises]
        return PromiseVerdict.BROKEN in verdicts or all(
            verdict is PromiseVerdict.KEPT for verdict in verdicts
        )

    return rule


@dataclass(frozen=True, slots=True)
class LargestRate:
    """The largest rate at which the promises were met.

    Attributes:
        point: None if no rate met them.
        low: the largest rate shown to keep them, or 0.
        high: the smallest rate shown to break one, or infinity.
        points: all that were tried, in this order.
    """

    point: RateTrial | None
    low: float
    high: float
    points: tuple[RateTrial, ...]


def largest_rate(
    measure: Callable[[float], RateTrial | None],
    first_rate: float,
    most_s: float,
    precision: float = PRECISION,
) -> LargestRate:
    """Try rates until the largest that meets the promises is known to `precision`, or the time is over.

    The rate doubles until the promises are broken, or halves until they are met; then the interval is halved on a
    logarithmic scale.

    Args:
        measure: plays a rate, in requests per second; it returns None, which ends the search, after too few answers.
        first_rate: such as that of a client who waits for each answer.
        most_s: the time after which no further rate is tried.
    """
    ends_s, points = time.monotonic() + most_s, list[RateTrial]()
    rates = _rates(first_rate, precision, points)
    for rate in rates:
        if (trial := measure(rate)) is None:
            break
        points.append(trial)
        if time.monotonic() > ends_s:
            break
    return largest_of(points)


def _rates(first_rate: float, precision: float, points: Sequence[RateTrial]) -> Iterator[float]:
    """Yield the next rate to try, after each of which `points` has its result."""
    yield first_rate
    factor = GROWTH if points[-1].is_met else 1 / GROWTH
    while (
        points[-1].is_met is (factor > 1)
        and LEAST_SHARE * first_rate <= (rate := points[-1].rate * factor) < MOST_RATE
    ):
        yield rate
    while (low := max((p.rate for p in points if p.is_met), default=0.0)) and (
        high := min((p.rate for p in points if not p.is_met and p.rate > low), default=0.0)
    ):
        if high / low <= 1 + precision:
            return
        yield math.sqrt(low * high)


def largest_of(points: Sequence[RateTrial]) -> LargestRate:
    """Return the largest rate of points.

    A rate that met the promises above one that is shown to break them was luck, and does not count.
    """
    high = min((p.rate for p in points if p.verdict is PromiseVerdict.BROKEN), default=math.inf)
    below = [p for p in points if p.rate < high]
    low = max((p.rate for p in below if p.verdict is PromiseVerdict.KEPT), default=0.0)
    met = max((p for p in below if p.is_met), key=lambda p: p.rate, default=None)
    return LargestRate(met, low, high, tuple(points))
