"""Stop rules: warm up until steady, then sample until precise.

Each rule is a generator that asks for one sample after the other: `fed` takes them from a step,
`script.sampling` sends those of a script.
"""

import math
import statistics
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from workloads.harness.engine.sampling.mean import MeanBounds, batch_means, mean_bounds
from workloads.harness.engine.sampling.ramp import FIRST, ramp
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.intervals import MAD_TO_SD, Interval, mean_interval, t_quantile

Take = Callable[[], float]
T = TypeVar("T")
Rule = Generator[None, float, T]  # is sent the seconds of a sample each time that it asks
FEWEST_OF_HALF = 3  # samples, to see a drift
FEWEST = 2  # samples in warm-up, and in sampling, however long they take
DRIFT_OF_BATCHES = 0.01  # between halves: as much as a sustained rate is sure to
NOISE = 2.0  # standard errors up to which a difference of two medians is noise
UNSURE = 2.0  # factor by which few samples can overstate their memory
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
        precise: the mean became so before the cap.
        drift: share by which the second half is slower, if the samples still moved at the end; else 0.
        early_s: samples that still drifted, before the first that counts.
        needed_s: predicted seconds until precision, if sampling gave up for that.
        mean: its interval; None for a device at its power limit.
        to_come: share by which the approached level is slower than the mean; None if the samples do not move.
    """

    samples_s: tuple[float, ...]
    precise: bool
    drift: float = 0.0
    early_s: tuple[float, ...] = ()
    needed_s: float | None = None
    mean: MeanBounds | None = None
    to_come: float | None = None


def fed(rule: Rule[T], take: Take) -> T:
    try:
        next(rule)
        while True:
            rule.send(take())
    except StopIteration as end:
        found: T = end.value
        return found


def never() -> bool:
    return False


def warm_up(take: Take, rules: Rules, now: Callable[[], float], swings: Callable[[], bool] = never) -> WarmUp:
    return fed(warming_up(rules, now, swings), take)


def settle(take: Take, rules: Rules, now: Callable[[], float]) -> tuple[float, ...]:
    return fed(settling(rules, now), take)


def sample(
    take: Take,
    rules: Rules,
    now: Callable[[], float],
    before: Sequence[float] = (),
    means_s: Sequence[float] | None = None,
) -> Sampled:
    return fed(sampling(rules, now, before, means_s), take)


def warming_up(rules: Rules, now: Callable[[], float], swings: Callable[[], bool] = never) -> Rule[WarmUp]:
    """Ask for stretches of samples until successive ones agree.

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
    samples, ends = [], now() + rules.settle_s
    while now() < ends:
        samples.append((yield))
    return tuple(samples)


def sampling(
    rules: Rules,
    now: Callable[[], float],
    before: Sequence[float] = (),
    means_s: Sequence[float] | None = None,
) -> Rule[Sampled]:
    """Ask for samples until their mean is precise and settled, or would take too long.

    While samples approach a level, their first quarter is moved to the warm-up.

    Args:
        before: samples of the warm-up, which continue in the samples.
        means_s: the mean of each sample so far, the latest last; None if a sample is its own mean.
    """
    window, started = Window(now()), now()
    due = started + rules.sample_min_s
    trends: list[float] = []
    while True:
        window.add((yield), now())
        over = window.ends[-1] >= started + rules.sample_cap_s or len(window.samples) >= rules.max_samples
        over = over and len(window.samples) >= FEWEST
        if not over and (len(window.samples) < rules.min_samples or window.ends[-1] < due):
            continue
        if rules.batch_s:
            trends.append(trend(window.batches(rules.batch_s)))
            look = _of_batches(window, rules, trends)
        else:
            look = _of_samples(window, rules, before, means_s)
        if not over and look.moves:
            window.drop_quarter()
            due = window.begun + rules.sample_min_s
            continue
        enough = len(window.samples) >= rules.min_samples
        precise = enough and look.width is not None and look.width <= rules.half_width
        hopeless = look.needed_s > rules.hopeless * rules.sample_cap_s and not (precise or over)
        if precise or over or hopeless:
            needed_s = look.needed_s if hopeless else None
            samples_s, early_s = tuple(window.samples), tuple(window.early)
            to_come = look.to_come if look.moves else None
            return Sampled(samples_s, precise, look.drift, early_s, needed_s, look.mean, to_come)
        due = window.ends[-1] + rules.look_growth * window.spent_s


@dataclass(frozen=True, slots=True)
class WindowLook:
    """The state of a window of samples.

    Attributes:
        moves: they approach a level, so the first of them do not count.
        width: half of the mean's 95 % interval as a share; None if unknown.
        drift, needed_s, to_come: as in `Sampled`; `needed_s` 0 if unknown.
    """

    moves: bool
    drift: float
    width: float | None
    needed_s: float = 0.0
    mean: MeanBounds | None = None
    to_come: float | None = None


def _of_batches(window: "Window", rules: Rules, trends: Sequence[float]) -> WindowLook:
    is_notable = abs(trends[-1]) > DRIFT_OF_BATCHES
    width = _width(mean_interval(window.batches(rules.batch_s)))
    return WindowLook(_is_ramp(trends, rules.drift), trends[-1] if is_notable else 0.0, width)


def _of_samples(
    window: "Window", rules: Rules, before: Sequence[float], means_s: Sequence[float] | None
) -> WindowLook:
    count = len(window.samples)
    stream = [*before[len(before) // FIRST :], *window.early, *window.samples]
    mean_s, curve = statistics.fmean(window.samples), ramp(stream)
    left = curve.to_come(mean_s, count) if curve else 0.0
    moves = curve is not None and max(abs(left), curve.fall(mean_s, count)) > rules.to_come
    values = list(means_s[-len(stream) :]) if means_s is not None else stream
    if curve:
        values = [value - above for value, above in zip(values, curve.above_mean(count), strict=True)]
    earlier = values[:-count][-min(count, len(stream) // 2) :]
    found = mean_bounds(values[-count:], earlier, abs(left) * mean_s, 1 if rules.is_long else None)
    width, drift = _width(found.interval), curve.drift(mean_s, count) if curve and moves else 0.0
    is_narrow = curve is None and width is not None and width <= rules.half_width / 2
    batches = rules.few_batches if is_narrow else rules.batches
    times = max(batches * found.size / count / UNSURE, ((width or 0.0) / rules.half_width) ** 2)
    width = width if found.batches >= batches else None
    return WindowLook(moves, drift, width, times * window.spent_s, found, left if curve else None)


def _width(interval: Interval | None) -> float | None:
    return (interval.high - interval.low) / 2 / interval.value if interval and interval.value > 0 else None


@dataclass(slots=True)
class Window:
    """The samples that count, their ends, the first one's beginning, and earlier samples."""

    begun: float
    samples: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    early: list[float] = field(default_factory=list)

    @property
    def spent_s(self) -> float:
        return self.ends[-1] - self.begun

    def add(self, sample_s: float, end: float) -> None:
        self.samples.append(sample_s)
        self.ends.append(end)

    def batches(self, batch_s: float) -> list[float]:
        return batch_means(self.samples, samples_in(batch_s, self.spent_s / len(self.samples)))

    def drop_quarter(self) -> None:
        count = max(len(self.samples) // 4, 1)
        self.early += self.samples[:count]
        self.begun = self.ends[count - 1]
        del self.samples[:count], self.ends[:count]


def samples_in(batch_s: float, sample_s: float) -> int:
    return max(round(batch_s / sample_s), 1)


def is_precise(samples: Sequence[float], rules: Rules) -> bool:
    found = mean_bounds(samples, size=1 if rules.is_long else None)
    width = _width(found.interval)
    return width is not None and found.batches >= rules.batches and width <= rules.half_width


def trend(batches: Sequence[float]) -> float:
    """Return by what share the second half is above the first, by a line; 0 if noise explains it.

    The slope is compared with its standard error at 99 %, because batches are few.
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
    return all(abs(drift) > share and drift * drifts[0] > 0 for drift in drifts)


def _agree(one: Sequence[float], other: Sequence[float], share: float) -> bool:
    medians = statistics.median(one), statistics.median(other)
    errors = _error(one, len(one)), _error(other, len(other))
    noise = NOISE * math.hypot(*errors)
    return abs(medians[0] - medians[1]) <= max(share * min(medians), noise)


def _error(samples: Sequence[float], count: int) -> float:
    middle = statistics.median(samples)
    spread = MAD_TO_SD * statistics.median(abs(value - middle) for value in samples)
    return OF_MEDIAN * spread / math.sqrt(count)
