"""A promised latency, and whether answers keep it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from workloads.harness.records.intervals import correlation_time, pairs_of_lags, t_quantile
from workloads.serving.client import ServedAnswer

METRICS = {
    "ttft": "time to the first token",
    "tpot": "mean time per token after the first",
    "itl": "longest time between two parts of an answer",
    "e2e": "time to the last token",
}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
CONFIDENCE = 0.99  # of one look at the answers, one-sided, so that five looks together are wrong in 5 of 100
SLOWEST = 0.1
STRETCH = 5  # correlation times, after which requests are about independent
_PATTERN = re.compile(rf"({'|'.join(METRICS)})_({'|'.join(QUANTILES)})_(ms|s)=([0-9.]+)")


class PromiseVerdict(StrEnum):
    """Whether a rate keeps a promise."""

    KEPT = "kept"
    BROKEN = "broken"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Promise:
    """A limit for latencies: at least the share `quantile` of requests has `metric` within `limit_s`."""

    metric: str
    quantile: float
    limit_s: float

    @classmethod
    def parse(cls, text: str) -> "Promise":
        """Return the promise of `ttft_p99_ms=500`.

        Raises:
            ValueError: with what would be right.
        """
        match = _PATTERN.fullmatch(text.replace(" ", ""))
        try:
            limit = float(match[4]) if match else 0.0
        except ValueError:
            limit = 0.0
        if not match or not limit:
            raise ValueError(
                f"{text!r} is not a promise: write METRIC_QUANTILE_UNIT=NUMBER, such as ttft_p99_ms=500; "
                f"metrics: {', '.join(METRICS)}; quantiles: {', '.join(QUANTILES)}; units: ms, s"
            )
        return cls(match[1], QUANTILES[match[2]], limit / 1000 if match[3] == "ms" else limit)

    def __str__(self) -> str:
        return f"{self.metric}_p{100 * self.quantile:g}_ms={1000 * self.limit_s:g}"

    def seconds_of(self, answer: ServedAnswer) -> float:
        """Return the metric of an answer; infinite if the request failed."""
        return float(getattr(answer, f"{self.metric}_s")) if not answer.error else math.inf


@dataclass(frozen=True, slots=True)
class Judged:
    """A promise compared with answers.

    Attributes:
        quantile_s: the promised quantile of the answers; infinite if too many failed.
        broken_share: the share of requests beyond the limit or failed, with `low` and `high`.
    """

    promise: Promise
    verdict: PromiseVerdict
    quantile_s: float
    broken_share: float
    low: float
    high: float


def judge(promise: Promise, answers: Sequence[ServedAnswer]) -> Judged:
    """Return whether answers, in the order of their due times, keep a promise.

    Requests in one queue are late together: a share of n of them is known as badly as of n divided by the
    correlation time of the series late or not. If few are late, this time cannot be seen, and that of the slowest
    tenth replaces it. Student's t allows for the few independent stretches that it is estimated from.
    """
    seconds = [promise.seconds_of(answer) for answer in answers]
    is_late = [second > promise.limit_s for second in seconds]
    share = sum(is_late) / len(is_late) if is_late else 0.0
    together = _correlation_time(is_late)
    if share < SLOWEST:
        slow_s = quantile(seconds, 1 - SLOWEST)
        together = max(together, _correlation_time([second > slow_s for second in seconds]))
    count = len(is_late) / together
    low, high = share_interval(share, count, t_quantile(CONFIDENCE, max(count / STRETCH, 1.0)))
    allowed = 1 - promise.quantile
    verdict = (
        PromiseVerdict.KEPT
        if high <= allowed
        else PromiseVerdict.BROKEN
        if low > allowed
        else PromiseVerdict.UNDECIDED
    )
    return Judged(promise, verdict, quantile(seconds, promise.quantile), share, low, high)


def share_interval(share: float, count: float, z: float) -> tuple[float, float]:
    """Return the score interval of a share of `count` independent requests; 0 to 1 without any.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22, 1927.
    """
    if not count:
        return 0.0, 1.0
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all do not exceed; infinite without values."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else math.inf


def _correlation_time(is_late: Sequence[bool]) -> float:
    share = sum(is_late) / len(is_late) if is_late else 0.0
    if not 0 < share < 1:
        return 1.0
    return correlation_time(pairs_of_lags([value - share for value in is_late]))
