"""The cost of a run, by every billed second."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tasks.plausibility.contradictions import clock_ran_backwards
from tasks.results.billing import SECONDS_PER_HOUR, usd
from tasks.results.finding import Finding, LaneJob, Results
from tasks.results.format import format_count
from tasks.results.model import Machine
from tasks.results.scaling import devices
from tasks.results.table import Column, Parts, Quantity, Table
from workloads.harness.records.amounts import LONGEST_S
from workloads.harness.records.record import Record

WAITED, IDLE, UNATTRIBUTED = "queue, boot and pull", "idle", "unattributed"
AFTERWARDS = "until the machine went"
WORDS = {
    "process_start": "process start",
    "server_start": "start of the server",
    "server_stop": "end of the server",
    "first_call": "first call",
    "first_step": "first step",
    "warm_up": "warm-up",
    "host_to_device": "to the device",
    "device_to_host": "from the device",
    "wall": "steps over the wall",
}
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Billed", Quantity.TIME),
    Column("Cost", Quantity.MONEY),
    Column("Timed steps alone", Quantity.MONEY),
    Column("Share of the bill", Quantity.SHARE),
    Column("Parts of the time", Quantity.PARTS),
)
ALONE = "from the records alone, without boot, image pull and idle time"


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of a machine's part of a run.

    Attributes:
        parts_s: billed seconds by phase, such as boot, warm-up, samples, idle.
        billed_s: with a provider's queue if it cannot be separated from the boot.
    """

    hardware: str
    parts_s: tuple[tuple[str, float], ...]
    billed_s: float
    usd: float | None
    compute_usd: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bills(Finding):
    """The bill of each machine."""

    name = "bills"
    title = "Cost of each machine"
    section = "money"
    order = 70
    bills: tuple[Bill, ...]

    @classmethod
    def find(cls, results: Results) -> "Bills":
        return cls(bills(results.records, results.machines, results.jobs))

    def table(self) -> Table | None:
        if not self.bills:
            return None
        priced = all(bill.usd is not None for bill in self.bills) and any(bill.usd for bill in self.bills)
        weights = [(bill.usd if priced else bill.billed_s) or 0.0 for bill in self.bills]
        longest = max(weights) or 1.0
        machines = defaultdict(list)
        for bill in self.bills:
            for note in bill.notes:
                machines[note].append(bill.hardware)
        return Table(
            columns=COLUMNS,
            rows=tuple(
                (
                    bill.hardware,
                    bill.billed_s,
                    bill.usd,
                    bill.compute_usd,
                    bill.compute_usd / bill.usd if bill.usd and bill.compute_usd is not None else None,
                    Parts(bill.parts_s, weight / longest),
                )
                for bill, weight in zip(self.bills, weights, strict=True)
            ),
            lead="The whole cost of this run's machines, compared with the timed steps alone. "
            f"Bars are by {'USD' if priced else 'time'}, all on one scale.",
            notes=tuple(
                f"{'All machines' if len(names) == len(self.bills) > 1 else ', '.join(names)}: {note}."
                for note, names in machines.items()
            ),
        )

    def published(self) -> dict[str, Any]:
        return {"bills": [asdict(bill) | {"parts_s": dict(bill.parts_s)} for bill in self.bills]}


def bills(
    records: Sequence[Record], machines: Sequence[Machine], jobs: Sequence[LaneJob] = ()
) -> tuple[Bill, ...]:
    """Count failed repeats, but none whose clock ran backwards."""
    available = {machine.name: machine for machine in machines}
    measured: dict[str, list[Record]] = {name: [] for name in available}
    for record in records:
        if 0 < record.wall_s <= LONGEST_S and not clock_ran_backwards(record):
            measured.setdefault(record.hardware, []).append(record)
    jobs = [part for job in jobs for part in _split(job, measured)]
    return tuple(
        bill(name, of_machine, available.get(name), [job for job in jobs if job.hardware == name])
        for name, of_machine in measured.items()
        if of_machine or any(job.hardware == name and job.usd for job in jobs)
    )


def _split(job: LaneJob, measured: Mapping[str, Sequence[Record]]) -> list[LaneJob]:
    """Split a job between entries that took turns in it, by the time of their records."""
    names = (job.hardware, *job.turns_with)
    if len(names) == 1:
        return [job]
    took_s = [math.fsum(record.wall_s for record in measured.get(name, ())) for name in names]
    whole_s = math.fsum(took_s)
    shares = [own_s / whole_s if whole_s else 1 / len(names) for own_s in took_s]
    return [
        replace(
            job,
            hardware=name,
            turns_with=(),
            idle_share=share,
            wait_s=job.wait_s * share,
            run_s=job.run_s * share,
            stages_s=tuple((stage, seconds * share) for stage, seconds in job.stages_s),
        )
        for name, share in zip(names, shares, strict=True)
    ]


def bill(hardware: str, records: Sequence[Record], machine: Machine | None, jobs: Sequence[LaneJob]) -> Bill:
    """Count only the records, with a note, if they exceed the jobs, of which some are then missing."""
    parts = _phases(records)
    measured_s, run_s = math.fsum(record.wall_s for record in records), math.fsum(job.run_s for job in jobs)
    whole = bool(jobs) and run_s >= measured_s
    if whole:
        after_s = machine.idle_s * max(job.idle_share for job in jobs) if machine else 0.0
        waits = _sums(stage for job in jobs for stage in job.stages_s or ((WAITED, job.wait_s),))
        parts = {**waits, **parts, IDLE: run_s - measured_s, AFTERWARDS: after_s}
    parts = {name: seconds for name, seconds in parts.items() if seconds}
    billed_s = math.fsum(parts.values())
    steps_s = math.fsum(min(r.wall.total_mean_s * r.wall.timed_steps, r.wall_s) for r in records if r.wall)
    price = paid_usd_per_hour(jobs) if whole else None
    if price is None and machine:
        price = machine.usd_per_hour
    return Bill(
        hardware=hardware,
        parts_s=tuple(parts.items()),
        billed_s=billed_s,
        usd=usd(billed_s, price),
        compute_usd=usd(steps_s, price),
        notes=(*(() if whole else (ALONE,)), *unused(records, machine)),
    )


def paid_usd_per_hour(jobs: Sequence[LaneJob]) -> float | None:
    paid = [job for job in jobs if job.usd is not None]
    took_s = math.fsum(job.wait_s + job.run_s for job in paid)
    return math.fsum(job.usd or 0.0 for job in paid) / took_s * SECONDS_PER_HOUR if took_s else None


def unused(records: Sequence[Record], machine: Machine | None) -> tuple[str, ...]:
    if machine is None or machine.devices < 2:
        return ()
    measured = [record for record in records if record.wall]  # others lack the used devices
    used = [(record, min(devices(record, machine) or 0, machine.devices)) for record in measured]
    cases: dict[int, set[str]] = {}
    for record, count in used:
        cases.setdefault(count, set()).add(record.case.id)
    if not any(count < machine.devices for count in cases):
        return ()
    whole_s = math.fsum(record.wall_s for record in measured) * machine.devices
    used_s = math.fsum(record.wall_s * count for record, count in used)
    parts = [f"{format_count(len(cases[count]), 'case')} used {count}" for count in sorted(cases)]
    share = f"{100 * (1 - used_s / whole_s):.3g} % of the paid accelerator time went unused"
    return (f"of {machine.devices} accelerators {', '.join(parts)}: {share}",)


def _phases(records: Sequence[Record]) -> dict[str, float]:
    phases = [(WORDS.get(name, name), seconds) for r in records for name, seconds in r.phases_s.items()]
    return {**_sums(phases), UNATTRIBUTED: math.fsum(record.unattributed_s for record in records)}


def _sums(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_name = defaultdict(list)
    for name, seconds in parts:
        by_name[name].append(seconds)
    return {name: math.fsum(seconds) for name, seconds in by_name.items()}
