import statistics
from dataclasses import replace

import pytest

from tests.tasks.examples.two_cards import power_capped
from tests.workloads.harness.records.timings import timing
from workloads.harness.engine.sampling.rules import GOVERNOR_S, Rules
from workloads.harness.engine.sampling.summary import sustained
from workloads.harness.records.grade import grade_of
from workloads.harness.records.record import Grade, Verdict
from workloads.harness.records.timing import SustainedRate
from workloads.harness.records.verdict import judge

BUSY_HOST = {"foreign_cores": 0.5, "canary_drift": 0.2}


def verdicts(**probes):
    return {verdict for verdict, _ in judge(timing(precision_reached=True), BUSY_HOST | probes, 0.0, None)}


@pytest.mark.parametrize(
    "probes",
    [
        {},  # a CPU's, which does the work itself; or a whole job's, in which the device's part is not known
        {"device_busy_share": 0.5},
    ],
)
def test_a_disturbed_host_is_noise_if_the_step_depends_on_it(probes):
    assert verdicts(**probes) == {Verdict.NOISY}


@pytest.mark.parametrize("load", [{}, {"cgroup_throttled_s": 0.1}, {"steal_share": 0.05}])
def test_a_busy_gpu_does_not_notice_its_host(load):
    assert verdicts(device_busy_share=0.95, **load) == set()


@pytest.mark.parametrize(
    ("held_s", "found"), [(0.0, set()), (0.00008, set()), (0.0108, set()), (0.03, {Verdict.NOISY})]
)
def test_a_quota_that_pauses_a_process_counts_by_its_share_of_the_window(held_s, found):
    """With as many threads as vCPUs, 48 of 101 repeats in containers paused for 0.08 to 10.8 ms."""
    probes = {"cgroup_throttled_s": held_s, "window_start_s": 5.0, "window_end_s": 7.0}
    assert {verdict for verdict, _ in judge(timing(precision_reached=True), probes, 0.0, None)} == found


@pytest.mark.parametrize(("busy", "found"), [(0.86, set()), (0.7, {Verdict.NOISY})])
def test_a_change_of_the_cpu_counts_by_the_hosts_share_of_a_step(busy, found):
    """An H100's fp8 product was called noisy for a CPU that ran 29 % slower."""
    probes = {"device_busy_share": busy, "canary_drift": 0.29}
    assert {verdict for verdict, _ in judge(timing(precision_reached=True), probes, 0.0, None)} == found


def test_the_clock_of_a_gpu_at_its_power_limit_is_a_fact_and_not_a_fault():
    wall = timing(precision_reached=True, sustained=SustainedRate(1.0, 0.99, 1.01, 10, 0.5))
    assert judge(wall, {"sm_clock_drift": -0.07, "device_busy_share": 1.0}, 0.0, None) == ()
    ((verdict, text),) = judge(wall, {"thermal_throttled_share": 0.2}, 0.0, None)
    assert verdict is Verdict.THROTTLED and "20.0%" in text
    drifting = timing(precision_reached=True, sustained=wall.sustained, drift=0.03)
    assert [verdict for verdict, _ in judge(drifting, {}, 0.0, None)] == [Verdict.UNSTEADY]


def judged_again(record):
    """Return an H100's record at its power limit with its samples' rate, judged by the rules for such a card."""
    wall = record.wall
    rate = sustained(wall.samples_s, wall.steps // len(wall.samples_s), GOVERNOR_S)
    is_precise = (rate.high_s - rate.low_s) / 2 <= Rules().half_width * rate.mean_s
    wall = replace(wall, steady=True, sustained=rate, precision_reached=is_precise)
    busy_share = min(record.device_busy_s / record.device_time.median_s, 1.0)
    found = judge(wall, record.probes | {"device_busy_share": busy_share}, 0.0, None)
    verdict, reasons = (found[0][0] if found else Verdict.OK), tuple(text for _, text in found)
    return replace(record, wall=wall, verdict=verdict, reasons=reasons)


def test_samples_of_a_card_at_its_power_limit_count_with_the_width_of_their_rate():
    before, again = power_capped(), [judged_again(record) for record in power_capped()]
    assert {record.verdict for record in before} == {Verdict.NOISY, Verdict.UNSTEADY}
    assert {record.verdict for record in again} <= {Verdict.OK, Verdict.IMPRECISE}, [r.reasons for r in again]
    assert not [record for record in again if grade_of(record) is Grade.REFUSED]
    rates = [record.wall.sustained for record in again if record.case.workload == "matmul"]
    sustained_s = statistics.fmean(rate.mean_s for rate in rates)
    assert len(rates) == 4 and all(rate.low_s < sustained_s < rate.high_s for rate in rates)
    assert (
        max((rate.high_s - rate.low_s) / 2 / rate.mean_s for rate in rates) < 0.07
    )  # of 2 s; it is 3.5 s now


@pytest.mark.parametrize(
    ("drift", "to_come", "share", "word"),
    [
        (-0.0002, -0.012, "1.2%", "above"),
        (0.0002, 0.007, "0.7%", "below"),
        (-0.03, -0.012, "3.0%", "faster"),
        (0.03, None, "3.0%", "slower"),  # as in older records
    ],
)
def test_an_unsteady_record_states_the_larger_of_drift_and_remaining_ramp(drift, to_come, share, word):
    wall = timing(precision_reached=True, drift=drift, to_come=to_come)
    ((verdict, text),) = judge(wall, {}, 0.0, None)
    assert verdict is Verdict.UNSTEADY and share in text and word in text
