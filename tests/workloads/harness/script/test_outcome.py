import random
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.record import Verdict
from workloads.harness.records.verdict import judge
from workloads.harness.script.observations import Observations
from workloads.harness.script.outcome import shares_of, timings
from workloads.harness.script.sampling import SamplingPlan, StepTimes, sample_steps
from workloads.harness.script.timers import TimedBlock


def event(name, start, end, device="CPU"):
    span = SimpleNamespace(start=start, end=end)
    return SimpleNamespace(
        name=name, time_range=span, device_type=f"DeviceType.{device}", is_user_annotation=False
    )


def profiler(*events):
    return SimpleNamespace(events=lambda: events)


def test_on_a_host_the_loader_comes_first_and_python_is_the_rest():
    found = shares_of(
        profiler(
            event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 20),
            event("aten::stack", 5, 15),
            event("aten::linear", 20, 50),
            event("aten::addmm", 25, 45),
            event("gloo:all_reduce", 40, 70),
            event("Optimizer.step#SGD.step", 70, 100),
        ),
        0.2,
    )
    assert found == pytest.approx({"loader": 0.2, "compute": 0.3, "communication": 0.2, "other": 0.3})


def test_the_loaders_share_is_that_of_all_steps_not_of_the_few_that_were_profiled():
    found = shares_of(profiler(event("aten::linear", 0, 50), event("Optimizer.step#SGD.step", 50, 100)), 0.5)
    assert found == pytest.approx({"loader": 0.5, "compute": 0.25, "other": 0.25})


def test_idle_time_of_a_gpu_is_split_into_waits_for_loader_and_host():
    kernels = (
        event("cudaLaunchKernel", 0, 100),
        event("sgemm", 0, 40, "CUDA"),
        event("ncclDevKernel_AllReduce", 30, 50, "CUDA"),
        event("Memcpy HtoD (Pinned -> Device)", 45, 60, "CUDA"),
    )
    found = shares_of(profiler(*kernels), 0.3)
    assert found == pytest.approx(
        {"compute": 0.4, "communication": 0.1, "copy": 0.1, "loader": 0.3, "launch": 0.1}
    )


def test_nothing_profiled_has_no_shares():
    assert shares_of(profiler(), 0.5) == {}


class Observed(Observations):
    """A script's steps in virtual time."""

    at_s = 0.0

    def now_s(self):
        return self.at_s


def measured(step_of):
    """Return both clocks' times of the steps that `step_of` makes."""
    observed, times = Observed(), StepTimes()
    timer = SimpleNamespace(cost_s=0.0)
    asked = sample_steps(SamplingPlan(Rules(), profiled=0), times, observed, timer, Phases(), nullcontext())
    block = next(asked)
    with pytest.raises(StopIteration):
        while True:
            assert block == 1
            step = step_of(len(observed.ends_s))
            observed.at_s += step.wall_s
            observed.ends_s.append(observed.at_s)
            block = asked.send(step)
    return timings(times, observed, Rules())


@pytest.mark.parametrize("on_gpu", [True, False])
def test_each_clock_has_the_bounds_of_its_own_mean(on_gpu):
    chance = random.Random(3)

    def step(place):
        wall_s = 0.1 * (1 + 0.01 * chance.gauss(0, 1))
        return TimedBlock(wall_s, wall_s / 2 if on_gpu else None)

    wall, device = measured(step)
    assert wall.mean_low_s < wall.mean_s < wall.mean_high_s < 0.11
    assert wall.mean_s == pytest.approx(0.1, rel=0.01)
    if on_gpu:
        assert device.mean_low_s < device.mean_s < device.mean_high_s < 0.055
    else:
        assert device is None


@pytest.mark.parametrize("on_gpu", [True, False])
def test_rare_work_is_not_in_the_mean_of_a_steady_step_nor_in_its_bounds(on_gpu):
    chance = random.Random(4)

    def step(place):
        wall_s = 0.1 * (1 + 0.01 * chance.gauss(0, 1)) + 2.0 * (place % 25 == 24)
        return TimedBlock(wall_s, wall_s / 2 if on_gpu else None)

    wall, device = measured(step)
    assert wall.max_s > 2.0 and wall.precision_reached
    for timing, step_s in [(wall, 0.1), *([(device, 0.05)] if on_gpu else [])]:
        assert timing.mean_low_s < timing.mean_s < timing.mean_high_s
        assert timing.mean_s == pytest.approx(step_s, rel=0.01)


def test_work_that_every_fourth_step_holds_is_part_of_the_step_and_widens_its_mean():
    chance = random.Random(5)

    def step(place):
        return TimedBlock(0.1 + (0.3 + 0.5 * chance.random()) * (place % 4 == 3))

    wall, _ = measured(step)
    assert wall.mean_s > 0.17 and wall.mean_low_s < wall.mean_s < wall.mean_high_s
    assert not wall.precision_reached and wall.needed_s > 30
    assert [verdict for verdict, _ in judge(wall, {}, 0.0, None)] == [Verdict.IMPRECISE]
