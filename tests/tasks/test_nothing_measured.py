import pytest

from tasks.measure import nothing_measured
from tasks.planning.plan import PlannedSkip
from workloads.harness.records.record import Verdict


def ended(plan, **others):
    """Return failed records of every repeat; `others` are the verdicts on a machine."""
    return [
        repeat.failed(others.get(machine.name.replace("-", "_"), Verdict.CAPACITY), "no such image")
        for machine in plan.hardware
        for repeat in plan.repeats_on(machine)
    ]


def test_a_run_in_which_nothing_was_measured_says_why(plan):
    said = nothing_measured(ended(plan, local_cpu=Verdict.CRASHED), plan)
    assert said.startswith("nothing was measured: 10 capacity, 10 crashed; local-cpu-1/")
    assert said.endswith(": no such image")


@pytest.mark.parametrize("verdict", [Verdict.OK, Verdict.NOISY, Verdict.IMPRECISE])
def test_one_number_is_something(plan, verdict):
    assert nothing_measured(ended(plan, local_cpu=verdict), plan) == ""


def test_a_run_of_planned_skips_alone_is_no_failure(plan):
    skips = tuple(
        PlannedSkip(hardware=machine.name, case=case, reason="too large")
        for machine in plan.hardware
        for case in plan.cases
    )
    all_skipped = plan.model_copy(update={"skips": skips})
    assert nothing_measured(ended(plan, local_cpu=Verdict.SKIPPED, local_cpu_1=Verdict.SKIPPED), plan)
    assert nothing_measured(all_skipped.skipped(), all_skipped) == ""
