"""Find the largest size that fits in memory, each trial in a fresh process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from workloads.harness.records.case import EAGER, Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import gigabytes, seconds
from workloads.harness.registry import Workload, find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.limits import out_of_reach
from workloads.harness.repeat.local_limits import limits_here
from workloads.harness.repeat.runs import Say, run_repeat

CLOSE = 100  # the result is exact to 1 part in 100: other programs' memory varies by as much
Trial = Callable[[int], Record]


@dataclass(frozen=True, slots=True)
class Largest:
    """The result of a search.

    Attributes:
        fits: the largest value that fits; None if no tried value does.
        record: of its trial, or of the trial that stopped the search early.
        too_large: the smallest tried value that does not fit; None if all up to the limit fit.
        reason: of an early stop; else empty.
    """

    fits: int | None
    record: Record | None
    too_large: int | None
    reason: str = ""


def search(start: int, limit: int | None, trial: Trial) -> Largest:
    fits, record, over = 0, None, None if limit is None else limit + 1
    value, tried_over = min(start, limit or start), False
    while over is None or over - fits > (max(fits // CLOSE, 1) if tried_over else 1):
        tried = trial(value)
        if tried.verdict is Verdict.OUT_OF_MEMORY:
            over, tried_over = value, True
        elif tried.ok:
            fits, record = value, tried
        else:
            reason = f"the trial of {value} ended with verdict {_ending(tried)}"
            return Largest(fits or None, tried, over if tried_over else None, reason)
        value = (fits + over) // 2 if tried_over and over else max(2 * fits, 1)
        if over:
            value = min(value, over - 1)
    return Largest(fits or None, record, over if tried_over else None)


def _ending(record: Record) -> str:
    return f"{record.verdict.value}: {'; '.join(record.reasons)}"


def first_case(name: str, size: Mapping[str, int], grow: str, precision: str, mode: str = EAGER) -> Case:
    """Return a search's first case; a missing `grow` takes its tiny value."""
    workload = find(name)
    if grow not in workload.sizes:
        names = ", ".join(workload.sizes)
        raise WorkloadsError(f"workload {name} has no size parameter {grow!r} to grow; it takes {names}")
    return workload.case({grow: max(_least(workload, grow), 1)} | dict(size), precision, mode)


def find_largest(first: Repeat, grow: str, limit: int | None, say: Say) -> Largest:
    workload, size = find(first.case.workload), first.case.params
    limits = limits_here(first.hardware, first.device, first.threads)

    def trial(value: int) -> Record:
        case = workload.case(size | {grow: value}, first.case.precision, first.case.mode)
        repeat = replace(first, case=case, trial=True)
        if reason := out_of_reach(case, limits):
            record = repeat.failed(Verdict.OUT_OF_MEMORY, reason)
        else:
            record = run_repeat(repeat, lock, lambda text: None)
        fitting = f"fits, {_peak(record)}, {seconds(record.wall_s)}"
        say(f"{case.id}: {fitting if record.ok else _ending(record)}")
        return record

    with whole_box(say) as lock:
        return search(size.get(grow) or _least(workload, grow), limit, trial)


def _least(workload: Workload, grow: str) -> int:
    return workload.tiny.get(grow) or workload.optional.get(grow) or 0


def _peak(record: Record) -> str:
    memory = record.memory
    if memory and memory.device_reserved_bytes is not None:
        return f"peak {gigabytes(memory.device_reserved_bytes)} on the device"
    return f"peak {gigabytes(memory.peak_rss_bytes)}" if memory and memory.peak_rss_bytes else "peak unknown"


def answer(result: Largest, grow: str, limit: int | None) -> str:
    if result.reason:
        so_far = f"{grow}={result.fits} fits" if result.fits else "no tried size fits"
        return f"stopped: {result.reason}; {so_far}"
    if result.fits is None or result.record is None:
        return f"not even {grow}={result.too_large} fits"
    bound = f"{grow}={result.too_large} does not" if result.too_large else f"the limit was {limit}"
    return f"{grow}={result.fits} fits, {_peak(result.record)}; {bound}"
