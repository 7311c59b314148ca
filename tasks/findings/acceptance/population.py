"""Machines with the same card and stack, each once."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.findings.acceptance.prediction import Logs, Measure, Values
from tasks.plausibility.gpu_names import names_in
from tasks.results.repeats import Repeats, group
from tasks.results.slices import slice_in
from tasks.results.turns import box_of
from workloads.harness.records.record import Record


@dataclass(frozen=True, slots=True)
class Kind:
    """Card and stack, which siblings share.

    Attributes:
        card: names of the GPUs, or of the CPU with its number of logical CPUs.
        stack: versions of torch, and on a GPU of CUDA and the driver's branch.
    """

    card: str
    stack: str

    def __str__(self) -> str:
        return f"{self.card} with {self.stack}"


@dataclass(frozen=True, slots=True)
class Member:
    """A machine in one run.

    Attributes:
        box: GPU ids, cloud instance id, or host name.
        measured_at: ISO 8601, which sorts by time.
    """

    run: str
    hardware: str
    box: str
    kind: Kind | None
    values: Values
    measured_at: str = ""


def member_of(cells: Sequence[Repeats]) -> Member:
    records = [record for cell in cells for record in cell.records]
    like = next((record for record in records if record.environment), records[0])
    first = min(record.started_at for record in records)
    return Member(like.run, like.hardware, box_of(like), _kind(like), _values(cells), first)


def members_of(records: Iterable[Record]) -> list[Member]:
    """Return each by its last measurement."""
    by_machine: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_machine.setdefault((record.run, record.hardware), []).append(record)
    machines = [member_of(group(of_machine, (), {})) for of_machine in by_machine.values()]
    newest: dict[tuple[str, Kind | None], Member] = {}
    for member in sorted(machines, key=lambda each: each.measured_at):
        newest[member.box, member.kind] = member
    return [*newest.values()]


def siblings_of(member: Member, others: Iterable[Member]) -> list[Member]:
    """Return none if its kind is unknown."""
    return [
        other for other in others if member.kind and other.kind == member.kind and other.box != member.box
    ]


def _values(cells: Sequence[Repeats]) -> Values:
    """Return logs of times, and of the drifts over soaks.

    Times are per unit of work, since steps can differ between machines.
    """
    values: dict[Measure, Logs] = {}
    for cell in cells:
        threads = next((r.threads for r in cell.usable if r.device == "cpu"), None)
        drifts = [-math.log(share) for record in cell.usable if (share := record.sustained_share)]
        if times := cell.compute_s:
            values[Measure(cell.cell.case, threads)] = [math.log(s / (cell.units or 1.0)) for s in times]
        if drifts:
            values[Measure(cell.cell.case, threads, is_drift=True)] = drifts
    return values


def _kind(record: Record) -> Kind | None:
    facts = record.environment
    torch = str(facts.get("torch") or "").partition("+")[0]
    if record.device == "cpu":
        card = f"{facts.get('cpu_model') or ''}, {facts.get('logical_cpus')} logical CPUs"
        return Kind(card, f"torch {torch}") if torch and facts.get("cpu_model") else None
    names = names_in(facts)
    count = f"{len(names)} × " if len(names) > 1 else ""
    profile = slice_in(facts).get("profile")
    part = f", MIG slice {profile}" if profile else ""
    card = f"{count}{' and '.join(sorted(set(names)))}{part}"
    driver = str(facts.get("nvidia_driver") or "").partition(".")[0]
    stack = f"torch {torch}, CUDA {facts.get('cuda')} and driver {driver or 'unknown'}"
    return Kind(card, stack) if torch and names else None
