"""Small groups of processes that measure together."""

from dataclasses import replace

from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat


def repeat_of(name, timeout_s=240.0, processes=2, **changes):
    case = Case.of(name, {"n": 64, "processes": processes})
    return replace(Repeat("a-run", "a-box", case, quick=True, timeout_s=timeout_s), **changes)


MEASURED = (Verdict.OK, Verdict.NOISY, Verdict.UNSTEADY, Verdict.IMPRECISE)
