"""Stop rules: warm up until steady, then sample until precise.

Each rule is a generator that asks for one sample after the other, so that samples may also arrive from code
that nobody can call: `fed` takes them for it where they can be taken.
"""

import math
import statistics
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.intervals import inefficiency, mean_interval, median_interval, t_quantile

Take = Callable[[], float]
T = TypeVar("T")
Rule = Generator[None, float, T]  # is sent the seconds of a sample each time that it asks
FEWEST_OF_HALF = 3  # samples, to see a drift
FEWEST = 2  # samples in warm-up, and in sampling, however long they take
DRIFT_OF_BATCHES = 0.01  # between halves: as much as a sustained rate is sure to
NOISE = 2.0  # standard errors that a difference of two medians may have without being one
NORMAL = 1.4826  # the standard deviation of a normal distribution over its median absolute deviation
OF_MEDIAN = 1.2533  # the standard error of its median over that of its mean: the root of half pi


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Seconds of each warm-up sample; `steady` if they settled before the cap."""

    samples_s: tuple[float, ...]
    steady: bool


@dataclass(frozen=True, slots=True)
class Sampled:
    """Seconds of each sample that counts.

    Attributes:
        precise: the median became so before the cap.
        drift: how much slower the second half is than the first, as a share, if the samples went one way to
            the end; else 0.
        early_s: samples that still drifted, before the first one that counts.
        needed_s: seconds that precision would take by the interval so far, where sampling gave up for it.
    """

    samples_s: tuple[float, ...]
    precise: bool
    drift: float = 0.0
    early_s: tuple[float, ...] = ()
    needed_s: float | None = None


def fed(rule: Rule[T], take: Take) -> T:
    """Take samples for a rule until it has enough, and return what it makes of them."""
    try:
        next(rule)
        while True:
            rule.send(take())
    except StopIteration as end:
        found: T = end.value
        return found


def never() -> bool:
    """Return False: the device is at no limit that makes its speed swing."""
    return False


def warm_up(take: Take, rules: Rules, now: Callable[[], float], swings: Callable[[], bool] = never) -> WarmUp:
    """Take samples by the rule `warming_up`."""
    return fed(warming_up(rules, now, swings), take)


def settle(take: Take, rules: Rules, now: Callable[[], float]) -> tuple[float, ...]:
    """Take samples that don't count for as long as the rules say."""
    return fed(settling(rules, now), take)


def sample(take: Take, rules: Rules, now: Callable[[], float], before: Sequence[float] = ()) -> Sampled:
    """Take samples by the rule `sampling`."""
    return fed(sampling(rules, now, before), take)


def warming_up(rules: Rules, now: Callable[[], float], swings: Callable[[], bool] = never) -> Rule[WarmUp]:
    """Ask for stretches of samples until successive ones agree, or the cap in time is reached.

    Stretches of a device that `swings` never agree: its warm-up ends after the least time.
    """
    started = now()
    deadline = started + rules.warm_cap_s
    samples: list[float] = []
    previous: list[float] = []
    agreed = 0
    while now() < started + rules.warm_min_s or (agreed < rules.agreements and not swings()):
        stretch: list[float] = []
        ends = now() + rules.stretch_s
        while len(stretch) < rules.stretch_samples or now() < ends:
            stretch.append((yield))
            if now() >= deadline and len(samples) + len(stretch) >= FEWEST:
                return WarmUp((*samples, *stretch), False)
        samples += stretch
        agreed = agreed + 1 if previous and _agree(previous, stretch, rules.agreement) else 0
        previous = stretch
    return WarmUp(tuple(samples), True)


def settling(rules: Rules, now: Callable[[], float]) -> Rule[tuple[float, ...]]:
    """Ask for samples that don't count for as long as the rules say."""
    samples, ends = [], now() + rules.settle_s
    while now() < ends:
        samples.append((yield))
    return tuple(samples)


def sampling(rules: Rules, now: Callable[[], float], before: Sequence[float] = ()) -> Rule[Sampled]:
    """Ask for samples until their median is precise without drift, or would clearly take too long.

    While they drift one way, the first quarter of them is left to the warm-up. Few samples are held against
    those `before`, of the warm-up.
    """
    window, started = Window(now()), now()
    due = started + rules.sample_min_s
    drifts: list[float] = []
    while True:
        window.add((yield), now())
        over = window.ends[-1] >= started + rules.sample_cap_s or len(window.samples) >= rules.max_samples
        over = over and len(window.samples) >= FEWEST
        if not over and (len(window.samples) < rules.min_samples or window.ends[-1] < due):
            continue
        most = max(len(window.samples), 2 * rules.min_samples)
        if rules.batch_s:
            drifts.append(trend(window.batches(rules.batch_s)))
        else:
            drifts.append(drift([*before, *window.early, *window.samples][-most:]))
        if not over and _is_ramp(drifts, rules.drift):
            window.drop_quarter()
            due = window.begun + rules.sample_min_s
            continue
        width = window.half_width(rules.batch_s)
        enough = len(window.samples) >= rules.min_samples
        precise = enough and width is not None and width <= rules.half_width
        gives_up = not (precise or over or rules.batch_s)  # few batches don't show how long precision takes
        needed_s = _needed_s(width, window.spent_s, rules) if gives_up else None
        if precise or over or needed_s is not None:
            is_notable = (
                abs(drifts[-1]) > DRIFT_OF_BATCHES if rules.batch_s else _is_ramp(drifts, rules.drift)
            )
            ramp = drifts[-1] if is_notable else 0.0
            return Sampled(tuple(window.samples), precise, ramp, tuple(window.early), needed_s)
        due = window.ends[-1] + rules.look_growth * window.spent_s


@dataclass(slots=True)
class Window:
    """The samples that count, when each ended, when the first began, and those that came too early."""

    begun: float
    samples: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    early: list[float] = field(default_factory=list)

    @property
    def spent_s(self) -> float:
        """Seconds from the beginning of the first sample to the end of the last."""
        return self.ends[-1] - self.begun

    def add(self, sample_s: float, end: float) -> None:
        """Add a sample that ended just now."""
        self.samples.append(sample_s)
        self.ends.append(end)

    def batches(self, batch_s: float) -> list[float]:
        """Return the means of the samples of each `batch_s` seconds."""
        return batch_means(self.samples, self.spent_s / len(self.samples), batch_s)

    def half_width(self, batch_s: float) -> float | None:
        """Return half of the 95 % interval as a share of the median, or of the mean of batches; None of too few."""
        if not batch_s:
            return _half_width(self.samples)
        interval = mean_interval(self.batches(batch_s))
        return (interval.high - interval.low) / 2 / interval.value if interval else None

    def drop_quarter(self) -> None:
        """Leave the first quarter of the samples to the warm-up."""
        count = max(len(self.samples) // 4, 1)
        self.early += self.samples[:count]
        self.begun = self.ends[count - 1]
        del self.samples[:count], self.ends[:count]


def batch_means(samples: Sequence[float], sample_s: float, batch_s: float) -> list[float]:
    """Return the means of whole batches of successive samples, each sample `sample_s` seconds long."""
    size = max(round(batch_s / sample_s), 1)
    starts = range(0, len(samples) - size + 1, size)
    return [math.fsum(samples[start : start + size]) / size for start in starts]


def is_precise(samples: Sequence[float], half_width: float) -> bool:
    """True if half of the median's 95 % interval is within `half_width` of the median."""
    width = _half_width(samples)
    return width is not None and width <= half_width


def drift(samples: Sequence[float]) -> float:
    """Return how far the second half's median is above the first's, as a share; 0 if noise explains it.

    Noise is what is left beside a line through the two medians; samples that hang together count as fewer.
    """
    half = len(samples) // 2
    if half < FEWEST_OF_HALF:
        return 0.0
    first, second = statistics.median(samples[:half]), statistics.median(samples[-half:])
    slope = (second - first) / (len(samples) - half)
    rest = [value - slope * place for place, value in enumerate(samples)]
    noise = NOISE * math.sqrt(2) * _error(rest, half) * math.sqrt(inefficiency(rest))
    return (second - first) / min(first, second) if abs(second - first) > noise else 0.0


def trend(batches: Sequence[float]) -> float:
    """Return how far the second half is above the first by a line through all, as a share; 0 if noise explains it.

    The slope is compared with its own error at 99 % (ordinary least squares), because batches are few.
    """
    count = len(batches)
    if count < 2 * FEWEST_OF_HALF:
        return 0.0
    slope, start = statistics.linear_regression(range(count), batches)
    rest = math.fsum((value - start - slope * place) ** 2 for place, value in enumerate(batches))
    error = math.sqrt(rest / (count - 2) * 12 / (count**3 - count))
    is_sure = abs(slope) > t_quantile(0.995, count - 2) * error
    return slope * count / 2 / statistics.fmean(batches) if is_sure else 0.0


def _is_ramp(drifts: Sequence[float], share: float) -> bool:
    """True if the samples drift, and did so in the same direction at every look; who wanders turns."""
    return all(abs(drift) > share and drift * drifts[0] > 0 for drift in drifts)


def _agree(one: Sequence[float], other: Sequence[float], share: float) -> bool:
    medians = statistics.median(one), statistics.median(other)
    errors = _error(one, len(one)), _error(other, len(other))
    noise = NOISE * math.hypot(*errors)
    return abs(medians[0] - medians[1]) <= max(share * min(medians), noise)


def _error(samples: Sequence[float], count: int) -> float:
    """Return the standard error of the median of `count` samples that spread like these."""
    middle = statistics.median(samples)
    spread = NORMAL * statistics.median(abs(value - middle) for value in samples)
    return OF_MEDIAN * spread / math.sqrt(count)


def _half_width(samples: Sequence[float]) -> float | None:
    interval = median_interval(samples, inefficiency=inefficiency(samples))
    return (interval.high - interval.low) / 2 / interval.value if interval and interval.value > 0 else None


def _needed_s(width: float | None, spent_s: float, rules: Rules) -> float | None:
    """Return the seconds that precision takes, if they are too many; an interval shrinks with their root."""
    needed_s = 0.0 if width is None else spent_s * (width / rules.half_width) ** 2
    return needed_s if needed_s > rules.hopeless * rules.sample_cap_s else None
