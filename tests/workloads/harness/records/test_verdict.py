"""What a GPU's record is held to of its host."""

import pytest

from tests.workloads.harness.records.timings import timing
from workloads.harness.records.record import Verdict
from workloads.harness.records.verdict import judge

BUSY_HOST = {"foreign_cores": 0.5, "canary_drift": 0.2}


def verdicts(**probes):
    return {verdict for verdict, _ in judge(timing(precision_reached=True), BUSY_HOST | probes, 0.0, None)}


@pytest.mark.parametrize(
    "probes",
    [
        {},  # a CPU's, which does the work itself
        {"spare_cpus": 1.5},
        {"spare_cpus": 1.5, "device_busy_share": 0.95},
        {"spare_cpus": 30.0},  # a whole job's or a script's, in which the device's part is not known
        {"spare_cpus": 30.0, "device_busy_share": 0.5},
    ],
)
def test_others_load_is_noise_where_it_can_reach_the_work(probes):
    assert verdicts(**probes) == {Verdict.NOISY}


@pytest.mark.parametrize("spare_cpus", [2.0, 30.0])
def test_a_busy_gpu_beside_idle_cpus_is_not_disturbed(spare_cpus):
    assert verdicts(spare_cpus=spare_cpus, device_busy_share=0.95) == set()


def test_what_holds_the_process_itself_back_is_noise_even_so():
    apart = {"spare_cpus": 30.0, "device_busy_share": 0.95}
    assert verdicts(**apart, cgroup_throttled_s=0.1) == {Verdict.NOISY}
    assert verdicts(**apart, steal_share=0.05) == {Verdict.NOISY}
