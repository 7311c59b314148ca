"""Timing a step: warm-up, samples and their summary in seconds per step."""

import gc
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from workloads.harness.engine.clock import Clock, Reading, Step, timer_cost_s
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling import Rules, block_size, sample, warm_up
from workloads.harness.records.intervals import median_interval, outliers
from workloads.harness.records.record import Timing


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of a step.

    Attributes:
        device_time: from the device's own clock; None where the host is the device.
        straggle_share: share of the time in which the device still worked after the timed stream had ended.
        timer_cost_s: seconds that timing itself adds to a sample.
        result: what the last timed step returned.
    """

    wall: Timing
    device_time: Timing | None
    straggle_share: float
    timer_cost_s: float
    result: Any


def time_step(
    step: Step,
    clock: Clock,
    rules: Rules,
    phases: Phases,
    window: AbstractContextManager[Any] | None = None,
    between: Callable[[int, Any], None] = lambda steps, result: None,
) -> Timed:
    """Warm up until steady, then sample until precise; `window` is entered around the samples only.

    `between` is called before each sample, untimed, with the steps that it will take and the last result.
    """
    latest: list[Reading] = []
    readings: list[Reading] = []

    def take() -> float:
        between(block, latest[0].result if latest else None)
        latest.clear()
        reading = clock.time(step, block)
        latest.append(reading)
        readings.append(replace(reading, result=None))  # keeping every result would fill the device
        return reading.wall_s / block

    with _quiet_collector(phases):
        with phases("warm_up"):
            first_s = clock.time(step, 1).wall_s
            second_s = clock.time(step, 1).wall_s
            rules = rules.for_step(first_s)
            cost_s = timer_cost_s(clock)
            block = block_size(max(min(first_s, second_s), 1e-9), cost_s, rules)
            warm = warm_up(take, rules, clock.now)
        readings.clear()
        with window or nullcontext(), phases("samples"):
            sampled = sample(take, rules, clock.now)
    device_samples = tuple(r.device_s / block for r in readings if r.device_s is not None)
    return Timed(
        wall=summarise(sampled.samples_s, block, warm.steady, sampled.precise, warm.samples_s),
        device_time=summarise(device_samples, block, warm.steady, sampled.precise)
        if device_samples
        else None,
        straggle_share=statistics.median(r.straggle_s / r.wall_s for r in readings),
        timer_cost_s=cost_s,
        result=latest[0].result,
    )


def summarise(
    samples_s: tuple[float, ...], block: int, steady: bool, precise: bool, warmup_s: tuple[float, ...] = ()
) -> Timing:
    """Summarise samples of seconds per step; outliers are counted, never dropped."""
    interval, (mild, severe) = median_interval(samples_s), outliers(samples_s)
    ordered = sorted(samples_s)
    return Timing(
        samples_s=samples_s,
        block=block,
        median_s=statistics.median(ordered),
        ci_low_s=interval.low if interval else None,
        ci_high_s=interval.high if interval else None,
        p95_s=ordered[max(-(-95 * len(ordered) // 100) - 1, 0)],
        max_s=ordered[-1],
        outliers_mild=mild,
        outliers_severe=severe,
        steady=steady,
        precision_reached=precise,
        warmup_s=warmup_s,
        mean_s=statistics.fmean(samples_s),
        steps=len(samples_s) * block,
    )


@contextmanager
def _quiet_collector(phases: Phases) -> Iterator[None]:
    """Keep Python's garbage collector out of the samples."""
    with phases("probe"):
        gc.collect()
        gc.freeze()
        gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
