import time
import weakref
from dataclasses import replace

import pytest

from tests.workloads.harness.fake_cuda import LAUNCH_S, FakeCuda
from workloads.harness.engine.cache import single_steps
from workloads.harness.engine.clock import HostClock, timer_cost_s
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.timing import time_step
from workloads.harness.records.record import Verdict
from workloads.harness.records.verdict import judge

SOON = replace(Rules(), stretch_s=0.01, warm_min_s=0.02, sample_min_s=0.05)  # each step is a call of Python's


@pytest.fixture
def cuda():
    return FakeCuda(waiting_s=5e-6)


@pytest.fixture
def timed(cuda, monkeypatch):
    """Return a function that times a step on the fake device by the engine's rules."""
    device_clock = cuda.install(monkeypatch)
    return lambda step: time_step(step, device_clock, Rules(), Phases())


def verdicts(timed):
    return [verdict for verdict, _ in judge(timed.wall, {"straggle_share": timed.straggle_share}, 1.0, None)]


@pytest.mark.parametrize("seconds", [3.0, 0.4, 10e-3, 100e-6, 20e-6])
def test_a_step_that_forgets_to_synchronise_is_timed_fully(cuda, timed, seconds):
    found = timed(lambda: cuda.launch(seconds))
    assert found.wall.median_s == pytest.approx(seconds, rel=0.01)
    assert found.device_time.median_s == pytest.approx(seconds, rel=0.01)
    assert found.straggle_share < 1e-3
    assert verdicts(found) == []
    assert cuda.synchronized >= 2 * len(found.wall.samples_s)


def test_a_step_bound_by_its_launches_takes_as_long_as_they_do(cuda, timed):
    found = timed(lambda: [cuda.launch(1e-6) for _ in range(10)])
    assert found.wall.median_s == pytest.approx(10 * LAUNCH_S, rel=0.01)
    assert found.device_time.median_s == pytest.approx(10 * LAUNCH_S, rel=0.05)
    assert found.wall.block > 10


def test_work_on_another_stream_is_in_the_wall_time_and_called_wrong(cuda, timed):
    found = timed(lambda: cuda.launch(10e-3, "side"))
    assert found.wall.median_s == pytest.approx(10e-3, rel=0.01)
    assert found.device_time.median_s < 1e-4  # the lie that the verdict is about
    assert found.straggle_share > 0.95
    assert verdicts(found) == [Verdict.WRONG]
    (_, reason), *_ = judge(found.wall, {"straggle_share": found.straggle_share}, 1.0, None)
    assert "work on other streams escapes the timing" in reason


@pytest.mark.parametrize(("side_s", "wrong"), [(11e-3, True), (10.2e-3, False), (5e-3, False)])
def test_work_beside_the_stream_is_wrong_only_when_it_outlasts_it(cuda, timed, side_s, wrong):
    def step():
        cuda.launch(side_s, "side")
        cuda.launch(10e-3)

    found = timed(step)
    assert found.wall.median_s == pytest.approx(max(side_s, 10e-3), rel=0.01)
    assert verdicts(found) == ([Verdict.WRONG] if wrong else [])


@pytest.mark.parametrize("kernel_s", [1e-6, 10e-6, 30e-6, 60e-6, 90e-6])
def test_the_hosts_cost_of_waiting_is_no_work_of_another_stream(monkeypatch, kernel_s):
    cuda = FakeCuda(waiting_s=5e-6)
    device_clock = cuda.install(monkeypatch)
    found = time_step(lambda: cuda.launch(kernel_s), device_clock, single_steps(SOON), Phases())
    assert found.wall.block == 1
    assert found.straggle_share == 0
    assert verdicts(found) == []


@pytest.mark.parametrize(("side_s", "wrong"), [(25e-6, False), (60e-6, True)])
def test_of_single_steps_too_work_on_another_stream_is_called_wrong(monkeypatch, side_s, wrong):
    cuda = FakeCuda(waiting_s=5e-6)
    device_clock = cuda.install(monkeypatch)

    def step():
        cuda.launch(side_s, "side")
        cuda.launch(10e-6)

    found = time_step(step, device_clock, single_steps(SOON), Phases())
    assert verdicts(found) == ([Verdict.WRONG] if wrong else [])


def test_streams_that_are_waited_for_are_well(cuda, timed):
    def step():
        cuda.launch(10e-3, "side")
        cuda.wait_for("side")

    found = timed(step)
    assert found.device_time.median_s == pytest.approx(10e-3, rel=0.01)
    assert verdicts(found) == []


def test_work_left_over_from_before_is_not_in_the_first_sample(cuda, timed):
    cuda.launch(5.0)
    found = timed(lambda: cuda.launch(1e-3))
    assert found.wall.max_s == pytest.approx(1e-3, rel=0.05)
    assert max(found.wall.warmup_s) == pytest.approx(1e-3, rel=0.05)


def test_a_clock_that_ramps_down_is_waited_for(cuda, timed):
    """A throttling GPU: 10 % slower in the end, with a time constant of 15 steps of 20 ms."""
    began_s = cuda.now_s

    def step():
        settled = 1 - 0.1 * 2.718281828 ** (-(cuda.now_s - began_s) / 0.3)
        cuda.launch(20e-3 * settled)

    found = timed(step)
    assert found.wall.steady
    assert found.wall.median_s == pytest.approx(20e-3, rel=0.01)
    assert found.wall.warmup_s[0] < 0.95 * found.wall.median_s


def test_no_result_is_held_while_the_next_is_computed(cuda, timed):
    earlier, left = [], []

    class Result:
        pass

    def step():
        left.append(sum(result() is not None for result in earlier[-3:]))
        cuda.launch(20e-6)
        result = Result()
        earlier.append(weakref.ref(result))
        return result

    found = timed(step)
    assert found.wall.block > 10 and len(left) > 1000
    assert max(left) == 0


def test_the_window_is_entered_around_the_samples_only(cuda, monkeypatch):
    device_clock, phases, seen = cuda.install(monkeypatch), Phases(), []

    class Window:
        def __enter__(self):
            seen.append(cuda.now_s)

        def __exit__(self, *error):
            seen.append(cuda.now_s)

    found = time_step(lambda: cuda.launch(5e-3), device_clock, Rules(), phases, Window())
    assert seen[1] - seen[0] == pytest.approx(found.wall.mean_s * found.wall.steps, rel=0.01)
    assert found.window_steps == found.wall.steps
    assert len(found.device_time.samples_s) == len(found.wall.samples_s)


def test_the_hosts_clock_times_a_block_and_hands_back_the_last_result():
    results = iter(range(100))
    reading = HostClock().time(lambda: (time.sleep(0.002), next(results))[1], 5)
    assert 5 * 0.002 <= reading.wall_s < 5  # seconds of a block, on however busy a machine
    assert (reading.result, reading.device_s, reading.straggle_s) == (4, None, 0.0)


def test_timing_itself_costs_little():
    assert 0 < timer_cost_s(HostClock()) < 20e-6
