"""Impossible or contradictory figures of a record."""

from collections.abc import Iterator

from workloads.harness.records.amounts import LONGEST_S, SHORTEST_S, is_amount, is_duration
from workloads.harness.records.record import Record, Timing

SLACK_S = 1e-3  # phases are read by several clocks
SLACK = 0.02
DEVICES = ("cpu", "cuda")
MEMORY = (
    *("peak_rss_bytes", "device_allocated_bytes", "device_reserved_bytes"),
    *("process_allocated_bytes", "process_reserved_bytes", "process_total_bytes"),
)


def out_of_range(seconds: float) -> bool:
    """Return whether it is not finite, not positive or beyond every clock."""
    return not is_duration(seconds)


def contradictions(record: Record) -> list[str]:
    """Return every impossible statement, except times per step."""
    checks = (clock_ran_backwards, negative, beyond_all_work, not_its_check)
    reasons = (
        *(check(record) for check in checks),
        *(not_its_interval(timing) for timing in (record.wall, record.device_time)),
        *(check(record) for check in (no_share, no_device, no_job)),
    )
    return [reason for reason in reasons if reason]


def clock_ran_backwards(record: Record) -> str | None:
    """Refuse a duration below zero, or beyond its whole."""
    for name, seconds in _stretches(record):
        if seconds < 0:
            return f"{name} took {seconds:.3g} s: the clock ran backwards"
        if seconds > LONGEST_S:
            return f"{name} took {seconds:.3g} s, more than 31 years"
    if 0 < record.wall_s < SHORTEST_S:
        return f"its process took {record.wall_s:.3g} s, less than any clock can resolve"
    excess_s = -record.unattributed_s
    if excess_s > SLACK * record.wall_s + SLACK_S:
        return f"its phases took {excess_s:.3g} s more than its process: the clock ran backwards"
    return None


def negative(record: Record) -> str | None:
    for name, value in _counts(record):
        if value is not None and value < 0:
            return f"its {name} is {value:.3g}"
    return None


def beyond_all_work(record: Record) -> str | None:
    """Refuse more work than all machines can do, or practically none."""
    work = record.work
    if work is None:
        return None
    for name, value in (("units", work.units), ("flops", work.flops), ("bytes", work.bytes)):
        if value is not None and value >= 0 and not is_amount(value):
            return f"it states {value:.3g} {name} of work in a step"
    return None


def not_its_check(record: Record) -> str | None:
    """Refuse ok records with a wrong result."""
    check = record.check
    if check is None or check.error <= check.bound:
        return None
    return f"it is ok, but its error of {check.error:.3g} is above the bound of {check.bound:.3g}"


def not_its_interval(timing: Timing | None) -> str | None:
    """Refuse a median, or sustained mean, outside its bounds."""
    if timing and (rate := timing.sustained) and not 0 <= rate.low_s <= rate.mean_s <= rate.high_s:
        bounds = f"{rate.low_s:.6g} to {rate.high_s:.6g} s"
        return f"it states a sustained mean of {rate.mean_s:.6g} s with an interval of {bounds}"
    if timing is None or timing.ci_low_s is None or timing.ci_high_s is None:
        return None
    if timing.ci_low_s <= timing.median_s <= timing.ci_high_s:
        return None
    bounds = f"{timing.ci_low_s:.6g} to {timing.ci_high_s:.6g} s"
    return f"it states a median of {timing.median_s:.6g} s with an interval of {bounds}"


def no_share(record: Record) -> str | None:
    """Refuse communication above the whole."""
    share = record.group.communication_share if record.group else None
    return f"{100 * share:.3g} % of its step is communication" if share is not None and share > 1 else None


def no_device(record: Record) -> str | None:
    return None if record.device in DEVICES else f"its device is {record.device[:40]!r}, neither cpu nor cuda"


def no_job(record: Record) -> str | None:
    """Refuse shares outside 0 to 1, or a job outside its bounds."""
    script = record.script
    if script is None:
        return None
    for name, share in script.shares.items():
        if not 0 <= share <= 1 + SLACK:
            return f"{100 * share:.3g} % of its step is {name[:40]}"
    job = script.job
    is_long = job is not None and (job.steps > 0 or (job.measured and job.steps == 0))
    if job is None or (is_long and 0 < job.low_s <= job.seconds <= job.high_s):
        return None
    bounds = f"{job.low_s:.6g} to {job.high_s:.6g} s"
    return f"it states {job.seconds:.6g} s for a whole job of {job.steps} steps, with an interval of {bounds}"


def _stretches(record: Record) -> Iterator[tuple[str, float]]:
    yield "its process", record.wall_s
    for phases_s in (record.phases_s, record.inherited_s):
        yield from ((f"its phase {name[:40]}", seconds) for name, seconds in phases_s.items())
    for timing in (record.wall, record.device_time):
        if timing and timing.samples_s:
            yield "one of its samples", min(timing.samples_s)
        if timing and timing.burst_s is not None:
            yield "a step of its first second", timing.burst_s
    if record.device_busy_s is not None:
        yield "the device's part of a step", record.device_busy_s
    if moved := record.transfer:
        yield "its transfer to the device", min(moved.h2d_pageable_s, moved.h2d_pinned_s)
        yield "its transfer from the device", min(moved.d2h_pageable_s, moved.d2h_pinned_s)
    if script := record.script:
        yield "the mean of its steps", script.mean_s or 0.0
        yield "its script up to the first step", script.first_step_s or 0.0
        yield "its whole job", script.job.seconds if script.job else 0.0
        if script.program:
            yield "its call", script.program.call_s or 0.0
            yield "a warm-up call", min(script.program.warm_ups_s, default=0.0)
    if record.group:
        yield from ((f"a step of rank {rank.rank}", rank.median_s) for rank in record.group.ranks)


def _counts(record: Record) -> Iterator[tuple[str, float | None]]:
    yield "energy", record.energy_j
    if work := record.work:
        for name in ("units", "flops", "bytes", "matmul_flops", "counted_flops", "launches", "parameters"):
            yield f"work in {name}", getattr(work, name)
    if memory := record.memory:
        for name in MEMORY:
            yield f"memory in {name}", getattr(memory, name)
    if moved := record.transfer:
        yield "transfer to the device in bytes", moved.h2d_bytes
        yield "transfer from the device in bytes", moved.d2h_bytes
    if record.group:
        yield "spread between ranks", record.group.spread
