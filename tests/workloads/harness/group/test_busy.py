import math
from types import SimpleNamespace

import pytest
import torch

from tests.workloads.harness.fake_cuda import LAUNCH_S, FakeCuda
from tests.workloads.harness.records.timings import FULL, timing
from workloads.harness.engine.device import Device
from workloads.harness.engine.measure import Draft, Stage, _run_job, _single_steps
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.group import distributed
from workloads.harness.group.distributed import GroupClock
from workloads.harness.prepared import Job, JobResult
from workloads.harness.records.record import Work

LAUNCHES = 60
ALONE_S = LAUNCHES * 1e-6


@pytest.fixture
def cuda():
    return FakeCuda(waiting_s=5e-6)


@pytest.fixture
def stage(cuda, monkeypatch):
    device = Device("cuda", torch.device("cpu"), cuda.install(monkeypatch))
    draft = Draft(work=Work(1, "steps", 0, 0, launches=LAUNCHES))
    return Stage(FULL, device, Rules(), Phases(), Readings("cpu", 1, 0.0), draft, print)


@pytest.fixture
def others(monkeypatch, cuda):
    told = SimpleNamespace(busy_s=0.0, met=0)

    def slowest(values):
        told.met += 1
        return [max(value, told.busy_s) for value in values]

    monkeypatch.setattr(distributed, "slowest", slowest)
    monkeypatch.setattr(GroupClock, "now", lambda clock: cuda.now_s)  # as the first rank's, by a broadcast
    return told


def step(cuda):
    for _ in range(LAUNCHES):
        cuda.launch(1e-6)


@pytest.mark.parametrize(
    ("others_s", "found_s"), [(0.0, ALONE_S), (2 * ALONE_S, 2 * ALONE_S), (math.inf, None)]
)
def test_a_groups_busy_time_is_its_slowest_ranks_or_missing(cuda, stage, others, others_s, found_s):
    clock = GroupClock(stage.device.clock, [])
    others.busy_s = others_s
    assert clock.busy_s(lambda: step(cuda), 4, 1e-2) == (found_s and pytest.approx(found_s, rel=0.01))
    assert others.met == 2  # all begin together, and all know the end


def test_a_group_has_the_time_of_its_devices_and_no_latency(cuda, stage, others):
    member = SimpleNamespace(world=2, mean=lambda value: value)
    clock = GroupClock(stage.device.clock, [])
    together = Stage(
        stage.repeat,
        Device("cuda", torch.device("cpu"), clock),
        *(stage.rules, stage.phases, stage.readings, stage.draft, print, member),
    )
    found_s = timing(median_s=LAUNCHES * LAUNCH_S)
    timed = SimpleNamespace(wall=found_s, device_time=found_s, blocks_s=[])
    _single_steps(together, SimpleNamespace(step=lambda: step(cuda)), timed)
    assert stage.draft.device_busy_s == pytest.approx(ALONE_S, rel=0.01)
    assert stage.readings.probes["device_busy_share"] == pytest.approx(1e-6 / LAUNCH_S, rel=0.01)
    assert stage.draft.latency is None


def test_a_whole_job_has_no_busy_time_and_the_reason(cuda, stage):
    def run():
        step(cuda)
        return JobResult(losses=(2.0, 1.0), step_s=(1.0,), metric="m", value=1.0, target=0.0)

    _run_job(stage, Job(run, lambda: None, 1, "steps", 0, 0, 0))
    assert stage.draft.device_busy_s is None
    assert "a whole job runs once" in stage.readings.missing["device_busy_s"]
