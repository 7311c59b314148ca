"""Every workload can be predicted on both devices, or it is said why not."""

import pytest

from workloads.harness.checks.needs import needs_of
from workloads.harness.registry import all_workloads

VALUES = {"gcn", "gcn_job"}  # whose graph is built from values


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", all_workloads())
def test_a_workload_is_predicted_or_it_is_said_why_not(name, device):
    workload = all_workloads()[name]
    if device not in workload.devices:
        return
    needs = needs_of(workload.case(workload.tiny), device)
    assert bool(needs.reason) is (name in VALUES), needs.reason
    assert needs.reason or 0 < needs.tensors_bytes <= needs.peak_bytes
