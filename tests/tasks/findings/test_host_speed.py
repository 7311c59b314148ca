from dataclasses import replace

import pytest

from tasks.findings.device.host_speed import HostSpeed
from tests.tasks.examples.records import MATMUL
from tests.tasks.findings.test_device import compared, on_gpu
from workloads.harness.records.record import Verdict


def with_host(name, python, launches=None, count=3, **changes):
    made = []
    for number, record in enumerate(on_gpu(MATMUL, 0.9, hardware=name, count=count)):
        scatter = 1 + 0.01 * number
        probes = record.probes | {"python_steps_per_s": python * scatter}
        probes |= {"launches_per_s": launches * scatter} if launches else {}
        made.append(replace(record, probes=probes, **changes))
    return made


def rows_of(*groups):
    table = compared(*groups).finding(HostSpeed).table()
    return {row[0]: row[1:] for row in table.rows}


def test_a_host_that_is_half_as_fast_is_named_with_the_factor():
    found = compared(with_host("h100", 50e6, 70e3), with_host("h200", 106e6, 140e3))
    rows = {row[0]: row[1:] for row in found.finding(HostSpeed).table().rows}
    python, against, launches, against_launches, where = rows["h100"]
    assert python.value == pytest.approx(50.5, rel=0.01) and python.low < python.value < python.high
    assert launches.value == pytest.approx(70.7, rel=0.01)
    assert against.estimate.value == pytest.approx(
        50 / 106
    ) and against_launches.estimate.value == pytest.approx(0.5)
    assert rows["h200"][1] is rows["h200"][3] is None and where == "the GPU"
    (sentence,) = found.finding(HostSpeed).observations()
    assert "The host of h100" in sentence and "0.47" in sentence and "h200's" in sentence


def test_launches_on_a_gpu_are_not_compared_with_those_on_a_cpu():
    rows = rows_of(with_host("gpu", 1e8, 70e3), with_host("cpu", 1e8, 400e3, device="cpu"))
    assert rows["gpu"][3] is rows["cpu"][3] is None and rows["cpu"][4] == "the CPU"


@pytest.mark.parametrize("slower", [100e6, 97e6])
def test_hosts_of_one_speed_are_not_told_apart(slower):
    found = compared(with_host("a", slower), with_host("b", 100e6))
    assert found.finding(HostSpeed).observations() == ()


def test_one_reading_each_shows_no_difference():
    found = compared(with_host("a", 50e6, count=1), with_host("b", 100e6, count=1))
    assert found.finding(HostSpeed).observations() == () and len(found.finding(HostSpeed).table().rows) == 2


def test_records_from_before_these_readings_have_no_row():
    assert set(rows_of(on_gpu(MATMUL, 0.9, hardware="old"), with_host("new", 1e8))) == {"new"}
    assert compared(on_gpu(MATMUL, 0.9)).finding(HostSpeed).table() is None


def test_a_refused_record_has_no_say():
    shared = with_host("a", 10e6, verdict=Verdict.SHARED)
    assert set(rows_of(shared, with_host("b", 1e8))) == {"b"}
