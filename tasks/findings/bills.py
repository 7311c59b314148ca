"""What a run cost in all, beside what its steps alone would have: where every billed second went."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tasks.plausibility.contradictions import clock_ran_backwards
from tasks.results.cost import usd
from tasks.results.finding_types import Bill
from tasks.results.format import format_count
from tasks.results.model import Machine
from tasks.results.scaling import devices
from workloads.harness.records.amounts import LONGEST_S
from workloads.harness.records.record import Record

WAITED, IDLE, UNATTRIBUTED = "queue, boot and pull", "idle", "unattributed"
AFTERWARDS = "until the machine went"
WORDS = {
    "process_start": "process start",
    "first_call": "first call",
    "warm_up": "warm-up",
    "host_to_device": "to the device",
    "device_to_host": "from the device",
}
ALONE = "from the records alone: boot, image pull and idle time are not in it"


@dataclass(frozen=True, slots=True)
class LaneJob:
    """One job of a lane: seconds until it started to measure, and from then until it ended.

    `stages_s` are the parts of `wait_s` by name, where its work pool says them. `usd` is what was paid for a
    rented box; jobs on it have none of their own, and take their start out of its time by a negative `run_s`.
    """

    hardware: str
    wait_s: float
    run_s: float
    stages_s: tuple[tuple[str, float], ...] = ()
    usd: float | None = None


def bills(
    records: Sequence[Record], machines: Sequence[Machine], jobs: Sequence[LaneJob] = ()
) -> tuple[Bill, ...]:
    """One bill for each machine that measured something, or was rented in vain.

    Failed repeats are in it: they were paid for too. A repeat whose clock ran backwards
    is in none: nobody knows how long it took.
    """
    known = {machine.name: machine for machine in machines}
    found: dict[str, list[Record]] = {name: [] for name in known}
    for record in records:
        if 0 < record.wall_s <= LONGEST_S and not clock_ran_backwards(record):
            found.setdefault(record.hardware, []).append(record)
    return tuple(
        bill(name, of_machine, known.get(name), [job for job in jobs if job.hardware == name])
        for name, of_machine in found.items()
        if of_machine or any(job.hardware == name and job.usd for job in jobs)
    )


def bill(hardware: str, records: Sequence[Record], machine: Machine | None, jobs: Sequence[LaneJob]) -> Bill:
    """A machine's bill. Its parts are what the records name, then what its jobs took beside them.

    Jobs that took less time than the records they should have measured are not all of them: then the bill is
    from the records alone, and says so.
    """
    parts = _phases(records)
    measured_s, run_s = math.fsum(record.wall_s for record in records), math.fsum(job.run_s for job in jobs)
    whole = bool(jobs) and run_s >= measured_s
    if whole:
        after_s = machine.idle_s if machine else 0.0
        parts = {**_waits(jobs), **parts, IDLE: run_s - measured_s, AFTERWARDS: after_s}
    told = tuple((name, seconds) for name, seconds in parts.items() if seconds)
    billed_s = math.fsum(seconds for _, seconds in told)
    price = paid_usd_per_hour(jobs) if whole else None
    if price is None and machine:
        price = machine.usd_per_hour
    return Bill(
        hardware=hardware,
        parts_s=told,
        billed_s=billed_s,
        usd=usd(billed_s, price),
        compute_usd=usd(math.fsum(map(_steps_s, records)), price),
        notes=(*(() if whole else (ALONE,)), *unused(records, machine)),
    )


def paid_usd_per_hour(jobs: Sequence[LaneJob]) -> float | None:
    """Return the hourly price paid for rented boxes in USD; None where none was rented."""
    paid = [job for job in jobs if job.usd is not None]
    took_s = math.fsum(job.wait_s + job.run_s for job in paid)
    return math.fsum(job.usd or 0.0 for job in paid) / took_s * 3600 if took_s else None


def _waits(jobs: Sequence[LaneJob]) -> dict[str, float]:
    """Seconds before jobs measured, by stage; of a job that has no stages as one."""
    found: dict[str, list[float]] = {}
    for job in jobs:
        for name, seconds in job.stages_s or ((WAITED, job.wait_s),):
            found.setdefault(name, []).append(seconds)
    return {name: math.fsum(seconds) for name, seconds in found.items()}


def unused(records: Sequence[Record], machine: Machine | None) -> tuple[str, ...]:
    """Name the accelerators of a machine that were paid for and left unused."""
    if machine is None or machine.devices < 2:
        return ()
    measured = [record for record in records if record.wall]  # the others don't tell what they used
    used = [(record, min(devices(record, machine) or 0, machine.devices)) for record in measured]
    cases: dict[int, set[str]] = {}
    for record, count in used:
        cases.setdefault(count, set()).add(record.case.id)
    if not any(count < machine.devices for count in cases):
        return ()
    whole_s = math.fsum(record.wall_s for record in measured) * machine.devices
    used_s = math.fsum(record.wall_s * count for record, count in used)
    parts = [f"{format_count(len(cases[count]), 'case')} used {count}" for count in sorted(cases)]
    share = f"{100 * (1 - used_s / whole_s):.3g} % of what the accelerators were paid for went unused"
    return (f"of {machine.devices} accelerators {', '.join(parts)}: {share}",)


def _phases(records: Iterable[Record]) -> dict[str, float]:
    """Seconds by phase over all records, in the order in which they come; what is in none is last."""
    sums: dict[str, list[float]] = {}
    rest = []
    for record in records:
        for name, seconds in record.phases_s.items():
            sums.setdefault(WORDS.get(name, name), []).append(seconds)
        rest.append(record.unattributed_s)
    found: Mapping[str, float] = {name: math.fsum(seconds) for name, seconds in sums.items()}
    return {**found, UNATTRIBUTED: math.fsum(rest)}


def _steps_s(record: Record) -> float:
    """Seconds of the steps that were timed."""
    return math.fsum(record.wall.samples_s) * record.wall.block if record.wall else 0.0
