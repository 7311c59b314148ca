"""The constants of warm-up and sampling."""

from dataclasses import dataclass, replace

from workloads.harness.records.repeat import Repeat
from workloads.harness.records.timing import FEWEST_BATCHES

DEVICE_MIN_S = 2.0  # of samples on a GPU: halves of a clock that is read ten times a second
# At its power limit an H100 swings about its sustained clock with a period of 1.0 s. After an idle moment the
# first swing is 10 % high, and each next one less than half of that (samples of November 2026).
GOVERNOR_S = 0.5  # of a batch: half a period, so that neighbouring batches are not alike
GOVERNOR_SETTLE_S = 1.5
GOVERNOR_SAMPLE_S = 3.5


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the end of warm-up and sampling; without a unit: counts or shares.

    Attributes:
        stretch_s: least length of a warm-up's stretches: clocks settle in time, not in steps.
        stretch_samples: least samples of a stretch.
        agreement: largest difference of the medians of stretches that agree, unless noise explains it.
        agreements: number of successive ones that ends the warm-up.
        soak_s: least length of a warm-up for sustained speed; its first second is then the burst.
        settle_s: steps after the counters' reading, to warm up a device that was idle then.
        sample_min_s: least length of the samples' window, for its halves and the counters.
        look_growth: share by which the window grows between checks of precision; more checks would stop at a
            lucky moment.
        half_width: largest half of the mean's 95 % interval, as a share; below the promised 1 % because of
            repeated checks.
        batches: least number of independent batches that bound the mean.
        few_batches: the same if the interval is within half of `half_width`, and the samples are on no ramp.
        is_long: steps are long enough to be independent: each is a batch.
        to_come: largest share of a ramp that can still come after the samples, or lie within them.
        drift: largest difference of the halves at a device's power limit, unless noise explains it.
        hopeless: sampling ends early if it would need this many times the cap.
        long_step_s: least length of steps with fewer samples, and caps of `long_cap_s`.
        batch_s: precision is that of the mean over batches of this length; 0 for the median of all samples.
        block_over_timer: least length of a block, in times of the timing itself.
        block_min_s: and in seconds; shorter than a scheduler's time slice.
    """

    stretch_s: float = 0.5
    stretch_samples: int = 5
    agreement: float = 0.005
    agreements: int = 1
    warm_min_s: float = 1.0
    warm_cap_s: float = 10.0
    soak_s: float = 0.0
    settle_s: float = 0.0
    min_samples: int = 10
    max_samples: int = 300
    half_width: float = 0.009
    batches: int = FEWEST_BATCHES
    few_batches: int = 4
    is_long: bool = False
    to_come: float = 0.005
    drift: float = 0.002
    sample_min_s: float = 2.0
    look_growth: float = 0.15
    sample_cap_s: float = 10.0
    hopeless: float = 1.5
    long_step_s: float = 0.6
    long_cap_s: float = 60.0
    batch_s: float = 0.0
    block_over_timer: float = 200.0
    block_min_s: float = 2e-4

    @property
    def sample_s(self) -> float:
        """Of short steps: `max_samples` last until the cap."""
        return self.sample_cap_s / self.max_samples

    def for_step(self, step_s: float) -> "Rules":
        if step_s < self.long_step_s:
            return self
        has_time = 12 * step_s <= 0.5 * self.long_cap_s  # for stretches of 4 that agree twice
        return replace(
            self,
            min_samples=6,
            batches=6,
            is_long=True,
            stretch_samples=4 if has_time else 3,
            agreements=2 if has_time else 1,
            sample_cap_s=self.long_cap_s,
            warm_cap_s=self.long_cap_s,
        )

    def quick(self) -> "Rules":
        """Return rules for a first look: equal precision, less patience with unsettled machines."""
        return replace(
            self,
            sample_min_s=0.75 * self.sample_min_s,
            stretch_s=0.5 * self.stretch_s,
            warm_min_s=0.5 * self.warm_min_s,
            warm_cap_s=0.3 * self.warm_cap_s,
            sample_cap_s=0.3 * self.sample_cap_s,
            long_step_s=0.3 * self.long_step_s,
            long_cap_s=0.5 * self.long_cap_s,
        )

    def soaking(self, seconds: float) -> "Rules":
        return replace(
            self,
            soak_s=seconds,
            warm_min_s=max(self.warm_min_s, seconds),
            warm_cap_s=self.warm_cap_s + seconds,
            long_cap_s=self.long_cap_s + seconds,
        )

    def on_device(self) -> "Rules":
        return replace(
            self,
            stretch_s=2 * self.stretch_s,
            warm_min_s=3 * self.warm_min_s,
            settle_s=0.3,
            sample_min_s=max(self.sample_min_s, DEVICE_MIN_S),
            sample_cap_s=max(self.sample_cap_s, 2 * DEVICE_MIN_S),
        )

    def at_power_limit(self) -> "Rules":
        sample_min_s = max(self.sample_min_s, GOVERNOR_SAMPLE_S)
        return replace(
            self,
            settle_s=GOVERNOR_SETTLE_S,
            batch_s=GOVERNOR_S,
            max_samples=3 * self.max_samples,  # samples were sized for a shorter cap
            sample_min_s=sample_min_s,
            sample_cap_s=max(self.sample_cap_s, 3 * sample_min_s),
        )

    def brief(self) -> "Rules":
        return replace(
            self,
            stretch_s=0.0,
            warm_min_s=0.0,
            sample_min_s=0.0,
            settle_s=0.0,
            warm_cap_s=0.2,
            sample_cap_s=0.2,
            long_cap_s=0.2,
        )


def rules_of(repeat: Repeat) -> Rules:
    rules = Rules().quick() if repeat.quick else Rules()
    if repeat.device == "cuda":
        rules = rules.on_device()
    rules = rules.soaking(repeat.soak_s) if repeat.soak_s else rules
    return rules.brief() if repeat.brief else rules


def block_size(step_s: float, timer_s: float, rules: Rules) -> int:
    target = max(rules.block_over_timer * timer_s, rules.block_min_s)
    return max(1, round(target / step_s + 0.5)) if step_s < target else 1


def blocks_of(block_s: float, rules: Rules) -> int:
    """Return an odd number, so that the median of samples estimates the median of blocks."""
    return 2 * int(rules.sample_s / block_s / 2) + 1 if block_s < rules.sample_s else 1
