"""Two runs against each other: what has changed since then, or machines that were measured apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.findings.compare import compare
from tasks.plausibility.physics import gate
from tasks.results.comparison import Comparison
from tasks.results.model import Machine
from tasks.results.repeats import key, latest, verdict_against
from workloads.harness.records.record import Record


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the two runs: its name, its records, its machines at the prices of its plan, its baseline."""

    name: str
    records: tuple[Record, ...]
    machines: tuple[Machine, ...]
    baseline: str


def compare_runs(first: ComparedRun, second: ComparedRun) -> tuple[list[Record], Comparison]:
    """Compare `second` with `first`, and return the records as the comparison names them.

    Where both measured the same hardware, each run stands as a machine and each case is named by its hardware
    too (`matmul@gke-l4`), so that only the same machine's cells are paired; prices play no part in that.
    Where they have no hardware in common, all machines stand side by side, against the first run's baseline.
    """
    ours, theirs = _hardware(first), _hardware(second)
    if not ours & theirs:
        machines = {machine.name: machine for machine in (*second.machines, *first.machines)}
        records = [*first.records, *second.records]
        used = [machine for name, machine in machines.items() if name in ours | theirs]
        base = first.baseline if first.baseline in ours else next((m.name for m in used), first.baseline)
        return records, compare(records, used or first.machines, base)
    records = [*_as_machine(first), *_as_machine(second)]
    runs = (Machine(first.name, None), Machine(second.name, None))
    return records, compare(records, runs, first.name)


def _hardware(side: ComparedRun) -> set[str]:
    return {record.hardware for record in side.records}


def _as_machine(side: ComparedRun) -> list[Record]:
    """The run's records under its own name, judged by the machines' facts, which a run has none of."""
    records: Sequence[Record] = latest(side.records)
    doubts = gate(records, side.machines)
    return [_renamed(side.name, record, doubts.get(key(record), ())) for record in records]


def _renamed(name: str, record: Record, doubts: tuple[str, ...]) -> Record:
    case = replace(record.case, workload=f"{record.case.workload}@{record.hardware}")
    if doubts:
        record = replace(record, verdict=verdict_against(doubts), reasons=(*record.reasons, *doubts))
    return replace(record, hardware=name, case=case)
