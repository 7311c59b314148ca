"""Passes beside the samples: the latency of single steps, and what the device alone takes for one."""

import statistics
from collections.abc import Callable, Sequence

from workloads.harness.engine.clock import Clock, Step
from workloads.harness.engine.sampling.summary import quantile
from workloads.harness.records.parts import Latency

MOST_STEPS, MOST_S = 300, 0.3  # of a pass for the latency of steps that were timed in blocks
FEWEST_FOR_P99 = 100
PASSES = 5  # for the time of the device alone, of which the median counts
MOST_QUEUED = 500  # operations: a stream takes about a thousand before its host has to wait
MOST_STEPS_QUEUED = 20
LONGEST_HOLD_S = 0.5


def latency(singles_s: Sequence[float]) -> Latency:
    """Summarise seconds of single steps."""
    ordered = sorted(singles_s)
    count = len(ordered)
    p50_s, p95_s, p99_s = (quantile(ordered, percent) for percent in (50, 95, 99))
    return Latency(count, p50_s, p95_s, p99_s if count >= FEWEST_FOR_P99 else None, ordered[-1])


def singles_s(step: Step, clock: Clock) -> list[float]:
    """Time steps one by one, for a short while."""
    clock.time(step, 1)
    singles: list[float] = []
    ends = clock.now() + MOST_S
    while len(singles) < MOST_STEPS and (not singles or clock.now() < ends):
        singles.append(clock.time(step, 1).wall_s)
    return singles


def busy_s(
    step: Step, clock: Clock, launches: int, step_s: float, profiled_s: Callable[[], float | None]
) -> tuple[float | None, str]:
    """Return the seconds of the device alone per step, or None and the reason.

    `launches` are the operations of a step, and `step_s` what it takes as it is. `profiled_s` gives the same
    by a profile, which a step needs that the device can't take as a whole; None where it shows nothing.
    """
    count = max(min(MOST_QUEUED // max(launches, 1), MOST_STEPS_QUEUED), 1)
    for steps in dict.fromkeys((count, 1)):
        hold_s = 2 * steps * step_s
        while True:
            hold_s = min(hold_s, LONGEST_HOLD_S)
            found = [clock.busy_s(step, steps, hold_s) for _ in range(PASSES)]
            values = [value for value in found if value is not None]
            if len(values) == PASSES:
                return statistics.median(values), ""
            if hold_s == LONGEST_HOLD_S:
                break
            hold_s *= 4
    if found_s := profiled_s():
        return found_s, ""
    why = "it waits for the device, or is longer than a stream's queue"
    cannot = f"a step of {launches} operations can't be queued as one ({why})"
    return None, f"{cannot}, and no profile shows its device time"
