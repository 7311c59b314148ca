"""Stop rules: warm up until steady, then sample until precise."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

from workloads.harness.records.intervals import median_interval

Take = Callable[[], float]
FEWEST = 2  # samples in warm-up, and in sampling, however long they take


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the end of warm-up and sampling. Names without a unit are counts or shares.

    Attributes:
        warm_min_s: warm-up lasts at least this long, because clocks settle in time and not in steps.
        sample_min_s: sampling lasts at least this long, so that the probes' counters have something to count.
        look_every: precision is looked at after so many samples; looking after each would stop too early.
        agreement: successive block medians that differ by less than this share are steady.
        agreements: how often in a row they must agree.
        half_width: the median is precise when half its 95 % interval is below this share of it. Not the whole
            1 % that we promise: who looks again and again stops at a lucky moment.
        long_step_s: from this length on a step is measured with fewer samples and a longer cap.
        block_over_timer: a block is at least this many times as long as the timing itself takes.
        block_min_s: and at least this long, so that `max_samples` of a short step last for seconds.
    """

    warm_block: int = 10
    agreement: float = 0.005
    agreements: int = 1
    warm_min_s: float = 0.3
    warm_cap_s: float = 10.0
    min_samples: int = 10
    max_samples: int = 300
    half_width: float = 0.009
    sample_min_s: float = 0.5
    look_every: int = 10
    sample_cap_s: float = 10.0
    long_step_s: float = 1.0
    block_over_timer: float = 200.0
    block_min_s: float = 0.01

    def for_step(self, step_s: float) -> "Rules":
        """Return the rules for a step of this length: 6 samples, a minute and warm-up blocks of 3 if long."""
        if step_s < self.long_step_s:
            return self
        cap_s = 6 * self.sample_cap_s
        return replace(
            self,
            min_samples=6,
            look_every=1,
            warm_block=3,
            agreements=1,
            sample_cap_s=cap_s,
            warm_cap_s=cap_s,
        )

    def quick(self) -> "Rules":
        """Return rules for a first look: the same precision, but less time for machines that won't settle."""
        return replace(self, warm_cap_s=0.3 * self.warm_cap_s, sample_cap_s=0.3 * self.sample_cap_s)

    def brief(self) -> "Rules":
        """Return rules for smoke tests: minimal sampling, whose times mean little."""
        return replace(self, warm_min_s=0.0, warm_cap_s=0.2, sample_min_s=0.0, sample_cap_s=0.2)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Seconds of each warm-up sample; `steady` if they settled before the cap."""

    samples_s: tuple[float, ...]
    steady: bool


@dataclass(frozen=True, slots=True)
class Sampled:
    """Seconds of each sample; `precise` if the median became so before the cap."""

    samples_s: tuple[float, ...]
    precise: bool


def warm_up(take: Take, rules: Rules, now: Callable[[], float]) -> WarmUp:
    """Take blocks of samples until successive block medians agree, or the cap in time is reached."""
    started = now()
    deadline = started + rules.warm_cap_s
    samples: list[float] = []
    previous, agreed = None, 0
    while agreed < rules.agreements or now() < started + rules.warm_min_s:
        block = []
        for _ in range(rules.warm_block):
            block.append(take())
            if now() >= deadline and len(samples) + len(block) >= FEWEST:
                return WarmUp((*samples, *block), False)
        samples += block
        median = statistics.median(block)
        close = previous is not None and abs(median - previous) <= rules.agreement * previous
        agreed = agreed + 1 if close else 0
        previous = median
    return WarmUp(tuple(samples), True)


def is_precise(samples: list[float], half_width: float) -> bool:
    """True if half of the median's 95 % interval is within `half_width` of the median."""
    interval = median_interval(samples)
    return interval is not None and (interval.high - interval.low) / 2 <= half_width * interval.value


def sample(take: Take, rules: Rules, now: Callable[[], float]) -> Sampled:
    """Take samples until the median is precise, or the cap in time or number is reached."""
    started = now()
    deadline = started + rules.sample_cap_s
    samples: list[float] = []
    while len(samples) < rules.max_samples:
        samples.append(take())
        enough = len(samples) >= rules.min_samples and now() >= started + rules.sample_min_s
        look = enough and (len(samples) - rules.min_samples) % rules.look_every == 0
        if look and is_precise(samples, rules.half_width):
            return Sampled(tuple(samples), True)
        if now() >= deadline and len(samples) >= FEWEST:
            break
    precise = len(samples) >= rules.min_samples and is_precise(samples, rules.half_width)
    return Sampled(tuple(samples), precise)


def block_size(step_s: float, timer_s: float, rules: Rules) -> int:
    """Return the steps per sample with which timing costs at most 1 / `block_over_timer` of it."""
    target = max(rules.block_over_timer * timer_s, rules.block_min_s)
    return max(1, round(target / step_s + 0.5)) if step_s < target else 1
