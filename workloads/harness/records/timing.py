"""The times of a step: samples, their median with its interval, their mean."""

import math
from dataclasses import dataclass

FEWEST_BATCHES = 8  # independent batches of samples that bound a mean


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """The rate that a GPU at its power limit keeps up, in seconds per step.

    Its governor changes the clock all the time: a median depends on the moment, the mean over many of its
    periods does not. `low_s` and `high_s` bound `mean_s` at 95 %, by the means of `batches` batches of
    `batch_s` seconds. `burst_s` is of the first moments, before the limit acts.
    """

    mean_s: float
    low_s: float
    high_s: float
    batches: int
    batch_s: float
    burst_s: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per step. Samples are medians of blocks of `block` steps.

    Attributes:
        ci_low_s, ci_high_s: 95 % bounds of the median (order statistics); None below 6 samples.
        mean_low_s, mean_high_s: 95 % bounds of the mean, by `batches` independent batches; None below three,
            and in older records.
        mean_s: total time of all blocks over their `steps`, for throughput and cost. Older records lack it:
            read `total_mean_s`. A script's rare work, such as an evaluation, is left out.
        p95_s, max_s: of blocks.
        steady: warm-up ended by agreement of its times.
        precision_reached: sampling ended by its precision.
        whole: the one sample is a whole job, whose spread is between repeats.
        drift: share by which the samples' second half is slower, if that made them unsteady.
        to_come: share by which the approached level is slower than the mean; None for steady samples and in
            older records.
        needed_s: predicted length of sampling, if it ended early for that.
        burst_s: of the first second of a soaking warm-up.
        sustained: None unless the device is a GPU at its power limit.
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
        """Total time of the samples over total work."""
        if self.mean_s is not None:
            return self.mean_s
        count = len(self.samples_s)
        return math.fsum(sample_s / count for sample_s in self.samples_s) if count else self.median_s

    @property
    def timed_steps(self) -> int:
        return len(self.samples_s) * self.block if self.steps is None else self.steps
