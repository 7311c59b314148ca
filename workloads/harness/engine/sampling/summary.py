"""Samples in numbers: median and interval, mean, tails, the burst of a warm-up."""

import statistics
from collections.abc import Sequence

from workloads.harness.engine.sampling.mean import MeanBounds, batch_means, mean_bounds
from workloads.harness.engine.sampling.stop import samples_in
from workloads.harness.records.intervals import inefficiency, mean_interval, median_interval, outliers
from workloads.harness.records.timing import SustainedRate, Timing

MOST_WARMUP = 100  # samples of warm-up that a record keeps: the shape of its curve
LIMIT_S = 0.1  # after which a governor has seen that a load exceeds the power limit
BURST_S = (0.2, 1.2)  # from when to when a device runs before power and heat hold it back


def summarise(
    samples_s: Sequence[float],
    block: int,
    steady: bool = True,
    precise: bool = True,
    blocks_s: Sequence[float] = (),
    bounds: MeanBounds | None = None,
) -> Timing:
    """Summarise samples of seconds per step; outliers are counted, never dropped.

    `blocks_s` are the blocks of `block` steps behind the samples; empty if samples are blocks. `bounds` are
    the mean's, as sampling found them; None computes those of the blocks.
    """
    interval = median_interval(samples_s, inefficiency=inefficiency(samples_s))
    mild, severe = outliers(samples_s)
    blocks_s = blocks_s or samples_s
    ordered = sorted(blocks_s)
    bounds = bounds or mean_bounds(batch_means(blocks_s, len(blocks_s) // len(samples_s)))
    return Timing(
        samples_s=tuple(samples_s),
        block=block,
        median_s=statistics.median(samples_s),
        ci_low_s=interval.low if interval else None,
        ci_high_s=interval.high if interval else None,
        p95_s=quantile(ordered, 95),
        max_s=ordered[-1],
        outliers_mild=mild,
        outliers_severe=severe,
        steady=steady,
        precision_reached=precise,
        mean_s=statistics.fmean(ordered),
        steps=len(ordered) * block,
        mean_low_s=bounds.interval.low if bounds.interval else None,
        mean_high_s=bounds.interval.high if bounds.interval else None,
        batches=bounds.batches,
    )


def sustained(
    samples_s: Sequence[float], steps: int, batch_s: float, warm_s: Sequence[float] = ()
) -> SustainedRate | None:
    """Return a device's rate at its power limit; None with too few batches.

    A sample takes `steps` steps. `warm_s` are samples from the beginning of the warm-up.
    """
    means = batch_means(samples_s, samples_in(batch_s, steps * statistics.fmean(samples_s)))
    interval = mean_interval(means)
    if interval is None:
        return None
    burst = min(_early(warm_s, steps, 0.0, LIMIT_S), default=None)  # before the power limit acts
    return SustainedRate(interval.value, max(interval.low, 0.0), interval.high, len(means), batch_s, burst)


def _early(samples_s: Sequence[float], steps: int, from_s: float, to_s: float) -> list[float]:
    ended_s, early = 0.0, []
    for sample_s in samples_s:
        ended_s += sample_s * steps
        if ended_s > from_s:
            early.append(sample_s)
        if ended_s > to_s:
            break
    return early


def quantile(ordered: Sequence[float], percent: int) -> float:
    """Return the smallest of sorted values that `percent` of them do not exceed."""
    return ordered[max(-(-percent * len(ordered) // 100) - 1, 0)]


def thinned(samples_s: Sequence[float], most: int = MOST_WARMUP) -> tuple[float, ...]:
    return tuple(samples_s[:: -(-len(samples_s) // most)]) if samples_s else ()


def burst_s(samples_s: Sequence[float], steps: int) -> float | None:
    early = _early(samples_s, steps, *BURST_S)
    return statistics.median(early) if early else None
