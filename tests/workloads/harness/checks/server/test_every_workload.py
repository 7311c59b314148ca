import pytest

from workloads.harness.checks.needs import needs_of
from workloads.harness.registry import all_workloads

# Loaders, jobs and groups have the step of another workload, which is tested, and take seconds each.
VARIANTS = {name for name, workload in all_workloads().items() if workload.of is not None}
NAMES = [pytest.param(n, marks=pytest.mark.chaos) if n in VARIANTS else n for n in all_workloads()]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_predicted_or_it_is_said_why_not(name, device):
    workload = all_workloads()[name]
    if device not in workload.devices:
        return
    needs = needs_of(workload.case(workload.tiny), device)
    if needs.reason:  # such as that of `gcn`, whose graph is built from values
        assert needs.tensors_bytes is needs.peak_bytes is None and "\n" not in needs.reason
    else:
        assert 0 < needs.tensors_bytes <= needs.peak_bytes
