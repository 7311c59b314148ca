"""A case as a suite measures it, and those that its minutes count."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.harness.probes.machine import peak_flops_bound
from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.script import Script
from workloads.harness.registry import find
from workloads.harness.repeat.limits import Limits, too_large

ESTIMATE_S = 15.0  # of a repeat, if the suite states none


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """A case as a suite measures it.

    Attributes:
        estimate_s: usual seconds of a repeat on a 2-core CPU, without its soak.
        threads: of a process; None for its machine's.
        device: the only one that the suite measures it on; None for all.
        soak_s: seconds of steps before the samples, for sustained speed; None warms up until steady.
        script: None for a built-in workload.
        assumed: the estimate is a guess, because the file states none.
    """

    case: Case
    estimate_s: float = ESTIMATE_S
    threads: int | None = None
    device: str | None = None
    soak_s: float | None = None
    script: Script | None = None
    assumed: bool = False

    @property
    def repeat_s(self) -> float:
        return self.estimate_s + (self.soak_s or 0.0)

    def is_for(self, device: str) -> bool:
        return self.device in (None, device)


def check_soak(entry: SuiteCase, timeout_s: float) -> None:
    """Refuse a soak that leaves no time for samples, or has no effect."""
    if entry.soak_s is None:
        return
    asked_for = f"soak_s={entry.soak_s:g} of {entry.case.id}"
    if find(entry.case.workload).kind == "job":
        raise WorkloadsError(
            f"{asked_for} is not allowed: the case is a whole job, and only steps can be soaked"
        )
    if entry.soak_s >= timeout_s:
        raise WorkloadsError(
            f"{asked_for} must be below timeout_s={timeout_s:g}, at which a repeat is stopped"
        )


def counted(entries: Sequence[SuiteCase], timeout_s: float) -> Sequence[SuiteCase]:
    if not any(entry.is_for("cpu") for entry in entries):
        return entries
    return [entry for entry in entries if _on_two_cores(entry, timeout_s)]


def _on_two_cores(entry: SuiteCase, timeout_s: float) -> bool:
    if entry.script:
        return entry.is_for("cpu")
    case, used, facts = entry.case, entry.threads or 2, {"arch": "x86_64", "cpu_flags": ["avx512f"]}
    peak = peak_flops_bound(facts, used, case.precision)
    limits = Limits(
        "two cores", peak_flops={case.precision: peak or math.inf}, processes=2 // (entry.threads or 1)
    )
    return entry.is_for("cpu") and too_large(case, limits, timeout_s) is None
