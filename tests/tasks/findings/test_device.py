from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.device.launch_bound import LaunchBound
from tasks.findings.device.sustained import Sustained
from tests.tasks.examples.records import IMAGES, MATMUL, machine, record, timing
from workloads.harness.records.case import Case

GCN = Case.of("gcn", {"hidden": 16})


def on_gpu(case, busy=None, burst=None, hardware="gpu", count=3):
    """Return repeats of a 2 ms step, of which the device computes a share; the first second differs."""
    made = []
    for number in range(count):
        seconds = 2e-3 * (1 + 1e-3 * number)
        step = timing(seconds, f"{case.id} {number} on the device")
        wall = timing(seconds, f"{case.id} {number}")
        wall = replace(wall, burst_s=burst and burst * seconds * (1 + 1e-3 * number))
        busy_s = busy and busy * seconds * (1 + 1e-3 * number)
        made.append(
            record(
                seconds,
                case,
                hardware,
                number,
                device="cuda",
                wall=wall,
                device_time=step,
                device_busy_s=busy_s,
            )
        )
    return made


def compared(*groups):
    records = [r for group in groups for r in group]
    names = dict.fromkeys(r.hardware for r in records)
    return compare(records, [machine(name) for name in names], next(iter(names)))


def test_launch_bound_steps_are_listed_and_counted_the_one_that_waits_longest_first():
    found = compared(on_gpu(MATMUL, 0.99), on_gpu(IMAGES, 0.6), on_gpu(GCN, 0.25))
    assert [s.launch_bound for s in found.summaries] == [False, True, True]
    table = found.finding(LaunchBound).table()
    assert [row[:2] for row in table.rows] == [("gpu", GCN.id), ("gpu", IMAGES.id)]
    device, share = table.rows[0][3:]
    assert device.value == pytest.approx(0.25 * table.rows[0][2].value, rel=0.01)
    assert share.low < 0.75 < share.high and share.value == pytest.approx(0.75, rel=0.01)
    (sentence,) = (s for s in found.observations if s.startswith("Launch-bound"))
    assert "on gpu the device waits for its host in 2 of 3 cases, for 74." in sentence
    assert sentence.endswith(f"of a step at {GCN.id}.")


@pytest.mark.parametrize(("busy", "is_bound"), [(0.95, False), (0.92, False), (0.90, True), (0.5, True)])
def test_a_tenth_of_a_step_is_the_bound(busy, is_bound):
    (summary,) = compared(on_gpu(MATMUL, busy)).summaries
    assert summary.launch_bound is is_bound


def test_one_repeat_has_a_share_and_supports_no_sentence():
    found = compared(on_gpu(MATMUL, 0.5, 1.0 / 2, count=1))
    assert found.summaries[0].busy_share.value == pytest.approx(0.5)
    assert len(found.finding(LaunchBound).table().rows) == len(found.finding(Sustained).table().rows) == 1
    assert not [s for s in found.observations if s.startswith(("Launch-bound", "Sustained"))]


def test_the_share_of_the_first_speed_after_a_soak_is_reported():
    found = compared(on_gpu(MATMUL, burst=0.8), on_gpu(IMAGES, burst=0.9), on_gpu(GCN))
    table = found.finding(Sustained).table()
    assert [row[1] for row in table.rows] == [MATMUL.id, IMAGES.id]
    assert table.rows[0][3].value == pytest.approx(0.8, rel=0.01)
    (sentence,) = (s for s in found.observations if s.startswith("Sustained"))
    assert "gpu keeps 80." in sentence and sentence.endswith(f"at {MATMUL.id}.")


def test_a_device_that_loses_nothing_is_in_the_table_and_in_no_sentence():
    found = compared(on_gpu(MATMUL, burst=1.0))
    assert len(found.finding(Sustained).table().rows) == 1
    assert not [s for s in found.observations if s.startswith("Sustained")]


@pytest.mark.parametrize("busy_s", [-1e-3, 1e12])
def test_a_part_that_no_clock_gives_is_refused_with_its_record(busy_s):
    bad = [replace(r, device_busy_s=busy_s) for r in on_gpu(MATMUL, 0.5)]
    (summary,) = compared(bad).summaries
    assert not summary.ok_repeats and "the device's part of a step took" in summary.reasons[0]


@pytest.mark.parametrize("busy_s", [0.0, 5e-324])
def test_a_part_of_nothing_says_nothing(busy_s):
    odd = [replace(r, device_busy_s=busy_s) for r in on_gpu(MATMUL, 0.5)]
    (summary,) = compared(odd).summaries
    assert (summary.ok_repeats, summary.busy_share, summary.launch_bound) == (3, None, False)
