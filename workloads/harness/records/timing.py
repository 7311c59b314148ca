"""The times of a step: samples, their median with its interval, their mean."""

import math
from dataclasses import dataclass

FEWEST_BATCHES = 8  # independent batches of samples that bound a mean


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """The rate that a GPU at its power limit keeps up, in seconds per step.

    Its governor raises and lowers the clock all the time, so that a median depends on the moment, and the mean
    over many of the governor's periods does not. `low_s` and `high_s` bound `mean_s` at 95 %, by the means of
    `batches` batches of `batch_s` seconds. `burst_s` is of the first moments, before the limit acts.
    """

    mean_s: float
    low_s: float
    high_s: float
    batches: int
    batch_s: float
    burst_s: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per step. A sample is the median of some blocks, of each its time divided by its `block` steps.

    `ci_low_s` and `ci_high_s` bound the median at 95 % (order statistics); None below 6 samples.
    `mean_low_s` and `mean_high_s` bound the mean at 95 %, by the means of `batches` independent batches of samples;
    None of fewer than three, and in older records.
    `steady` is whether warm-up ended by agreement; `precision_reached` whether sampling ended by it. `whole`
    says that the one sample is a whole job, whose spread is between repeats.

    `mean_s` is the time of all timed blocks over their `steps`: what throughput and cost are made of, because
    it doesn't move with the length of a block. Records may lack it: read `total_mean_s`. `p95_s` and `max_s`
    are of blocks. In the mean of a script, samples with rare work, such as an evaluation, count as usual ones.
    `drift` is how much slower the second half of the samples is, as a share, if that made them
    unsteady; `to_come` how much slower the level that they approach is than their mean, as a share, negative for
    a faster level, and None for steady samples and in older records; `needed_s` what sampling would have taken, if
    it saw that and ended early. `burst_s` is of the first second of a soaking warm-up. `sustained` is None unless
    the device is a GPU at its power limit.
    """

    samples_s: tuple[float, ...]
    block: int
    median_s: float
    ci_low_s: float | None
    ci_high_s: float | None
    p95_s: float
    max_s: float
    outliers_mild: int
    outliers_severe: int
    steady: bool
    precision_reached: bool
    warmup_s: tuple[float, ...] = ()
    whole: bool = False
    mean_s: float | None = None
    steps: int | None = None
    drift: float = 0.0
    needed_s: float | None = None
    burst_s: float | None = None
    sustained: SustainedRate | None = None
    mean_low_s: float | None = None
    mean_high_s: float | None = None
    batches: int | None = None
    to_come: float | None = None

    @property
    def total_mean_s(self) -> float:
        """Seconds per step over all samples: total time over total work."""
        if self.mean_s is not None:
            return self.mean_s
        count = len(self.samples_s)
        return math.fsum(sample_s / count for sample_s in self.samples_s) if count else self.median_s

    @property
    def timed_steps(self) -> int:
        """Number of steps behind the samples."""
        return len(self.samples_s) * self.block if self.steps is None else self.steps
