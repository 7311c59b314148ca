"""Passes after the samples: single steps' latency, and the device's own time."""

import statistics
from collections.abc import Callable, Sequence

from workloads.harness.engine.clock import Clock, Step
from workloads.harness.engine.sampling.summary import quantile
from workloads.harness.records.parts import Latency

MOST_STEPS, MOST_S = 300, 0.3  # of a pass for the latency of steps that were timed in blocks
FEWEST_FOR_P99 = 100
PASSES, FEWEST_PASSES, MOST_BUSY_S = 5, 2, 0.5  # for the time of the device alone, of which the median counts
MOST_QUEUED, LONGEST_QUEUE = (
    500,
    1000,
)  # operations: a stream takes about a thousand before its host has to wait
MOST_STEPS_QUEUED = 20
LONGEST_HOLD_S = 0.5


def latency(singles_s: Sequence[float]) -> Latency:
    ordered = sorted(singles_s)
    count = len(ordered)
    p50_s, p95_s, p99_s = (quantile(ordered, percent) for percent in (50, 95, 99))
    return Latency(count, p50_s, p95_s, p99_s if count >= FEWEST_FOR_P99 else None, ordered[-1])


def singles_s(step: Step, clock: Clock) -> list[float]:
    clock.time(step, 1)
    singles: list[float] = []
    ends = clock.now() + MOST_S
    while len(singles) < MOST_STEPS and (not singles or clock.now() < ends):
        singles.append(clock.time(step, 1).wall_s)
    return singles


def busy_s(
    step: Step,
    clock: Clock,
    launches: int,
    step_s: float,
    profiled_s: Callable[[], float | None],
    is_limited: bool = False,
) -> tuple[float | None, str]:
    """Return the device's seconds per step, or None and the reason.

    Args:
        launches: operations of a step.
        step_s: its duration with gaps.
        profiled_s: a profile's number, for a step that is too long to queue; None if it shows nothing.
        is_limited: power limits the device, which is faster after each pass's pause than in the samples; its
            share is relative to steps that follow the same pause.
    """
    count = max(min(MOST_QUEUED // max(launches, 1), MOST_STEPS_QUEUED), 1)
    for steps in dict.fromkeys((count, 1)):
        if steps * launches > LONGEST_QUEUE:
            continue
        hold_s = 2 * steps * step_s
        while True:
            hold_s = min(hold_s, LONGEST_HOLD_S)
            values = _held_s(step, clock, steps, hold_s, is_limited)
            if values:
                share = statistics.median(values)
                return (min(share, 1.0) * step_s if is_limited else share), ""
            if hold_s == LONGEST_HOLD_S:
                break
            hold_s *= 4
    if found_s := profiled_s():
        return found_s, ""
    why = "it waits for the device, or is longer than a stream's queue"
    cannot = f"a step of {launches} operations can't be queued as one ({why})"
    return None, f"{cannot}, and no profile shows its device time"


def _held_s(step: Step, clock: Clock, steps: int, hold_s: float, is_share: bool) -> list[float]:
    values: list[float] = []
    ends = clock.now() + MOST_BUSY_S
    while len(values) < PASSES and (len(values) < FEWEST_PASSES or clock.now() < ends):
        if is_share:
            clock.busy_s(lambda: None, 1, hold_s)  # the same pause as a held pass has
            plain_s = clock.time(step, steps).device_s
        if (value := clock.busy_s(step, steps, hold_s)) is None:
            return []
        values.append(value * steps / plain_s if is_share and plain_s else value)
    return values
