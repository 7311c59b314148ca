"""Compare two runs: machines at two times, or different machines."""

from dataclasses import dataclass, replace

from tasks.findings.compare import compare
from tasks.plausibility.physics import gate
from tasks.results.comparison import Comparison
from tasks.results.model import Machine
from tasks.results.repeats import key, latest, verdict_against
from workloads.harness.records.record import Record


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of two runs; its machines have its plan's prices."""

    name: str
    records: tuple[Record, ...]
    machines: tuple[Machine, ...]
    baseline: str


def compare_runs(first: ComparedRun, second: ComparedRun) -> tuple[list[Record], Comparison]:
    """Compare `second` with `first`; return the records as the comparison names them.

    If both measured the same hardware, each run is a machine and cases are named by hardware
    (`matmul@gke-l4`), without prices. Otherwise all machines are compared with the first run's baseline.
    """
    ours, theirs = ({record.hardware for record in run.records} for run in (first, second))
    if not ours & theirs:
        machines = {
            m.name: replace(m, box=f"{run.name}/{m.box}") for run in (second, first) for m in run.machines
        }
        records = [*first.records, *second.records]
        used = [machine for name, machine in machines.items() if name in ours | theirs]
        base = first.baseline if first.baseline in ours else next((m.name for m in used), first.baseline)
        return records, compare(records, used or first.machines, base)
    records = [*_as_machine(first), *_as_machine(second)]
    runs = (Machine(first.name, None), Machine(second.name, None))
    return records, compare(records, runs, first.name)


def _as_machine(run: ComparedRun) -> list[Record]:
    """Return records under the run's name, judged by facts of their machines, which a run lacks."""
    records = latest(run.records)
    refusals, renamed = gate(records, run.machines), []
    for record in records:
        case = replace(record.case, workload=f"{record.case.workload}@{record.hardware}")
        if doubts := refusals.get(key(record), ()):
            record = replace(record, verdict=verdict_against(doubts), reasons=(*record.reasons, *doubts))
        renamed.append(replace(record, hardware=run.name, case=case))
    return renamed
