"""The grade of a record: whether its number is used, and with what width."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from workloads.harness.records.intervals import inefficiency, median_interval
from workloads.harness.records.record import Grade, Record, Timing, Verdict

# Readings over the sampling window above which a record is noisy: proposals, until records set them.
STEAL_SHARE = 0.01
HELD_SHARE = 0.01  # in which a CPU quota held it back: with as many threads as CPUs, some ms are usual
FOREIGN_CORES = 0.25
CANARY_DRIFT = 0.05
SM_CLOCK_DRIFT = 0.01  # of a GPU's clock within the samples, above which a record is unsteady
# Beyond these a record is refused although its verdict is a wide one. Records within them move a ratio less
# than the intervals of a few repeats are wide: `python -m tests.tasks.results.noisy_machines` shows it.
MOST_DRIFT = 0.05  # of the median of an unsteady record's times, whatever their noise
MOST_BUSY_SHARE = 0.55  # of all logical CPUs, taken by other processes: one of two, and what reading it adds
MOST_STEAL_SHARE = 0.10
MOST_HELD_SHARE = 0.10  # of the samples' time, in which a container's quota held it back


def grade_of(record: Record) -> Grade:
    """Return the grade of a record's verdict; `refused` if out of bounds."""
    grade = record.verdict.grade
    return Grade.REFUSED if grade is Grade.WIDE and not _within_bounds(record) else grade


def counts(record: Record) -> bool:
    return grade_of(record) is not Grade.REFUSED


def is_busy(record: Record) -> bool:
    """Return whether other programs ran meanwhile: repeats under the same load cannot show that."""
    return record.verdict is Verdict.NOISY and not is_restless(record)


def is_restless(record: Record) -> bool:
    """Return whether a record is noisy only because the CPU's clock speed varied.

    Such repeats enter their cell: those with a constant speed by chance are no more correct.
    """
    probes = record.probes
    loads = (
        probes.get("foreign_cores", 0.0) > FOREIGN_CORES,
        probes.get("steal_share", 0.0) > STEAL_SHARE,
        held_share(probes, record.device_time or record.wall) > HELD_SHARE,
    )
    changed = abs(probes.get("canary_drift", 0.0)) > CANARY_DRIFT
    return record.verdict is Verdict.NOISY and changed and not any(loads)


def held_share(probes: Mapping[str, float], timing: Timing | None) -> float:
    """Return the share of the window in which a CPU quota stopped threads; above 1 if several CPUs were."""
    held_s = probes.get("cgroup_throttled_s", 0.0)
    window_s = probes.get("window_end_s", 0.0) - probes.get("window_start_s", 0.0)
    if window_s <= 0 and timing is not None:
        window_s = timing.total_mean_s * timing.timed_steps
    return held_s / window_s if held_s > 0 and window_s > 0 else math.inf if held_s > 0 else 0.0


def _within_bounds(record: Record) -> bool:
    timing = record.device_time or record.wall
    if timing is None and not record.metrics:
        return False
    clock_moved = abs(record.probes.get("sm_clock_drift", 0.0)) > SM_CLOCK_DRIFT
    if timing and ((clock_moved and not timing.sustained) or not timing.steady) and drifts(timing):
        return False
    return record.verdict is not Verdict.NOISY or all(value <= most for value, most in _loads(record, timing))


def drifts(timing: Timing) -> bool:
    """Return whether times still changed in one direction by more than noise explains.

    Every repeat is then wrong in the same direction, which no interval over repeats shows. Compares the end
    of warm-up with the samples, and the halves of the samples.
    """
    if timing.sustained:  # samples swing, and by their intervals any two stretches would differ
        return abs(timing.drift) > MOST_DRIFT
    warm, samples = timing.warmup_s[len(timing.warmup_s) // 2 :], timing.samples_s
    half = len(samples) // 2
    return _apart(warm, samples) or _apart(samples[:half], samples[-half:])


def _apart(before: Sequence[float], after: Sequence[float]) -> bool:
    if not before or not after:
        return False
    first, second = statistics.median(before), statistics.median(after)
    one, other = (median_interval(side, inefficiency=inefficiency(_level(side))) for side in (before, after))
    told = one is not None and other is not None and (one.high < other.low or other.high < one.low)
    return told or abs(second - first) > MOST_DRIFT * first


def _level(values: Sequence[float]) -> list[float]:
    slope = statistics.linear_regression(range(len(values)), values).slope if len(values) > 1 else 0.0
    return [value - slope * place for place, value in enumerate(values)]


def _loads(record: Record, timing: Timing | None) -> Iterator[tuple[float, float]]:
    """Yield the reading of each kind of load, and its limit.

    The canary has no limit: its 60 to 80 ms on a core shared with another VM are fast or slow by chance.
    """
    probes = record.probes
    yield probes.get("steal_share", 0.0), MOST_STEAL_SHARE
    yield held_share(probes, timing), MOST_HELD_SHARE
    yield probes.get("foreign_load_share", 0.0), MOST_BUSY_SHARE
