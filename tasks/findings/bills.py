"""What a run cost in all, and where every billed second went."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
    """The cost of a machine's part of a run, beside what its steps alone would have.

    Attributes:
        parts_s: billed seconds by what they went to, such as boot, import, warm-up, samples, idle.
        billed_s: all of them; the machine was paid for that long. Time in a provider's queue is in it where
            it can't be told from the boot, so it errs on the side of too much.
        usd: `billed_s` at the machine's price; None without one.
        compute_usd: the timed steps alone at that price.
        notes: what the bill lacks, and which accelerators were paid for and left unused, in words.
    """

    hardware: str
    parts_s: tuple[tuple[str, float], ...]
    billed_s: float
    usd: float | None
    compute_usd: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bills(Finding):
    """The bill of each machine: where every billed second went, and what the timed steps alone would cost."""

    name = "bills"
    title = "Cost of each machine"
    section = "money"
    order = 70
    bills: tuple[Bill, ...]

    @classmethod
    def find(cls, results: Results) -> "Bills":
        """Add up what each machine was paid for."""
        return cls(bills(results.records, results.machines, results.jobs))

    def table(self) -> Table | None:
        """Return a row a machine; bars are by cost where every bill has one, else by time."""
        if not self.bills:
            return None
        priced = all(bill.usd is not None for bill in self.bills) and any(bill.usd for bill in self.bills)
        weights = [(bill.usd if priced else bill.billed_s) or 0.0 for bill in self.bills]
        longest = max(weights) or 1.0
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
            notes=self._notes(),
        )

    def published(self) -> dict[str, Any]:
        """Return `bills`, with seconds by part."""
        return {"bills": [asdict(bill) | {"parts_s": dict(bill.parts_s)} for bill in self.bills]}

    def _notes(self) -> tuple[str, ...]:
        """Return each note with its machines; without them where it is true of all."""
        machines: dict[str, list[str]] = {}
        for bill in self.bills:
            for note in bill.notes:
                machines.setdefault(note, []).append(bill.hardware)
        return tuple(
            f"{'All machines' if len(names) == len(self.bills) > 1 else ', '.join(names)}: {note}."
            for note, names in machines.items()
        )


def bills(
    records: Sequence[Record], machines: Sequence[Machine], jobs: Sequence[LaneJob] = ()
) -> tuple[Bill, ...]:
    """One bill for each machine that measured something, or was rented in vain.

    Failed repeats are in it: they were paid for too. A repeat whose clock ran backwards
    is in none: nobody knows how long it took.
    """
    available = {machine.name: machine for machine in machines}
    matches: dict[str, list[Record]] = {name: [] for name in available}
    for record in records:
        if 0 < record.wall_s <= LONGEST_S and not clock_ran_backwards(record):
            matches.setdefault(record.hardware, []).append(record)
    return tuple(
        bill(name, of_machine, available.get(name), [job for job in jobs if job.hardware == name])
        for name, of_machine in matches.items()
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
    sentences = tuple((name, seconds) for name, seconds in parts.items() if seconds)
    billed_s = math.fsum(seconds for _, seconds in sentences)
    price = paid_usd_per_hour(jobs) if whole else None
    if price is None and machine:
        price = machine.usd_per_hour
    return Bill(
        hardware=hardware,
        parts_s=sentences,
        billed_s=billed_s,
        usd=usd(billed_s, price),
        compute_usd=usd(math.fsum(map(_steps_s, records)), price),
        notes=(*(() if whole else (ALONE,)), *unused(records, machine)),
    )


def paid_usd_per_hour(jobs: Sequence[LaneJob]) -> float | None:
    """Return the hourly price paid for rented boxes in USD; None where none was rented."""
    paid = [job for job in jobs if job.usd is not None]
    took_s = math.fsum(job.wait_s + job.run_s for job in paid)
    return math.fsum(job.usd or 0.0 for job in paid) / took_s * SECONDS_PER_HOUR if took_s else None


def _waits(jobs: Sequence[LaneJob]) -> dict[str, float]:
    """Seconds before jobs measured, by stage; of a job that has no stages as one."""
    matches: dict[str, list[float]] = {}
    for job in jobs:
        for name, seconds in job.stages_s or ((WAITED, job.wait_s),):
            matches.setdefault(name, []).append(seconds)
    return {name: math.fsum(seconds) for name, seconds in matches.items()}


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
    share = f"{100 * (1 - used_s / whole_s):.3g} % of the paid accelerator time went unused"
    return (f"of {machine.devices} accelerators {', '.join(parts)}: {share}",)


def _phases(records: Iterable[Record]) -> dict[str, float]:
    """Seconds by phase over all records, in the order in which they come; what is in none is last."""
    sums: dict[str, list[float]] = {}
    rest = []
    for record in records:
        for name, seconds in record.phases_s.items():
            sums.setdefault(WORDS.get(name, name), []).append(seconds)
        rest.append(record.unattributed_s)
    matches: Mapping[str, float] = {name: math.fsum(seconds) for name, seconds in sums.items()}
    return {**matches, UNATTRIBUTED: math.fsum(rest)}


def _steps_s(record: Record) -> float:
    """Return the seconds of the timed steps: at most those of the process that timed them."""
    if record.wall is None:
        return 0.0
    return min(record.wall.total_mean_s * record.wall.timed_steps, record.wall_s)
