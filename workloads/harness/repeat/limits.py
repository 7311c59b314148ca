"""Predict cases for which a machine lacks memory, time or devices, erring on the side of trying."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workloads.harness.engine.sampling.stop import FEWEST
from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.script import OWN, Script
from workloads.harness.records.text import duration, gigabytes
from workloads.harness.registry import Workload, find

ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
# Least number of steps, even of slow ones: the first call, the check, two to size a block, warm-up and
# sampling, and the check afterwards.
LEAST_STEPS = 1 + 1 + 2 + 2 * FEWEST + 1
# A rate predicts a larger size only if a step's costs besides its work are negligible.
TELLING_STEP_S = 0.1
HOPELESS = 2.0  # predicted time over the timeout
WITHOUT_ROOM = {  # verdicts that a larger case would have, too
    Verdict.OUT_OF_MEMORY: "ran out of memory",
    Verdict.UNCHECKED: "ran out of memory while checking its result",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits of a machine; None, or no entry, if unknown.

    Attributes:
        machine: its name in reasons.
        memory_bytes: of one GPU, or of the host, whichever computes.
        memory_shared: processes that measure together share it, as on a host.
        peak_flops: upper bound of one process in FLOP/s, by precision.
        processes: largest number that measures together.
    """

    machine: str
    memory_bytes: float | None = None
    memory_shared: bool = False
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    processes: int | None = None


def too_large(case: Case, limits: Limits, timeout_s: float, script: Script | None = None) -> str | None:
    """Say why a machine cannot measure a case; None if it might."""
    together = processes_of(case, script)
    if limits.processes is not None and together > limits.processes:
        return f"{together} processes measure together, but {limits.machine} has room for {limits.processes}"
    workload = _known(case)
    if workload and workload.all_gpus and _leaves_half(together, limits):
        return f"{workload.name} loads all GPUs, and {limits.machine} has {limits.processes}, not {together}"
    if reason := out_of_reach(case, limits):
        return reason
    peak = limits.peak_flops.get(case.precision)
    if workload and workload.flops and peak:
        least_s = workload.flops(**case.params) * _steps(workload) / (peak * together)
        if least_s > timeout_s:
            return (
                f"takes at least {duration(least_s)} at the peak of {limits.machine}, "
                f"but the timeout is {duration(timeout_s)}"
            )
    return None


def _leaves_half(together: int, limits: Limits) -> bool:
    return not limits.memory_shared and 2 * together <= (limits.processes or 0)


def processes_of(case: Case, script: Script | None) -> int:
    return script.processes if script else case.params.get("processes", 1)


def out_of_reach(case: Case, limits: Limits) -> str | None:
    workload = _known(case)
    if workload is None or workload.elements is None or limits.memory_bytes is None:
        return None
    needed = workload.elements(**case.params) * ELEMENT_BYTES[case.precision]
    needed *= case.params.get("processes", 1) if limits.memory_shared else 1
    if needed <= limits.memory_bytes:
        return None
    return f"needs at least {gigabytes(needed)}, but {limits.machine} has {gigabytes(limits.memory_bytes)}"


def too_much_for(case: Case, ended: Iterable[Record], timeout_s: float) -> str | None:
    for record in ended:
        if not at_least(case, record.case):
            continue
        if said := WITHOUT_ROOM.get(record.verdict):
            return f"{record.case.id} {said}, and this case is at least as large"
        predicted_s = _predicted_s(case, record)
        if predicted_s is not None and predicted_s > HOPELESS * timeout_s:
            return (
                f"takes about {duration(predicted_s)} at the rate of {record.case.id}, "
                f"but the timeout is {duration(timeout_s)}"
            )
    return None


def tells_of_others(record: Record) -> bool:
    """Return whether a record bears on later repeats; thousands of short steps do not."""
    shortest_s = min(record.wall.samples_s, default=0.0) if record.wall else 0.0
    by_layout = bool(record.layout_trials_s)
    by_steps = record.script is not None and record.script.steps > 0
    if record.script and record.script.program:  # a larger number can be another kind of work
        return False
    return record.verdict in WITHOUT_ROOM or by_layout or by_steps or shortest_s >= TELLING_STEP_S


def at_least(case: Case, other: Case) -> bool:
    """Return whether `case` is `other`, or the same with no smaller parameter.

    More processes do not make it larger. Cases with different parameters cannot be compared.
    """
    if (case.workload, case.terms) != (other.workload, other.terms):
        return False
    if case.params.keys() != other.params.keys():
        return False
    if case.params.get("processes") != other.params.get("processes"):
        return False
    return all(value >= other.params[name] for name, value in case.size)


def _predicted_s(case: Case, record: Record) -> float | None:
    workload = _known(case)
    if not (counts(record) and record.wall and workload and workload.flops):
        return None
    best_s = min(record.wall.samples_s)
    if best_s < TELLING_STEP_S:
        return None
    growth = workload.flops(**case.params) / workload.flops(**record.case.params)
    return best_s * growth * _steps(workload)


def _steps(workload: Workload) -> int:
    return 1 if workload.kind == "job" else LEAST_STEPS


def _known(case: Case) -> Workload | None:
    if case.precision == OWN:
        return None
    try:
        return find(case.workload)
    except WorkloadsError:
        return None
