import math
from dataclasses import replace

import pytest

from tests.workloads.harness.engine.streams import quiet, streams
from tests.workloads.harness.fake_cuda import LAUNCH_S, FakeCuda
from tests.workloads.harness.records.timings import FULL, timing
from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.sampling.rules import Rules, rules_of
from workloads.harness.engine.sampling.single import busy_s, latency, singles_s
from workloads.harness.probes.energy import GPU_MIN_WINDOW_S
from workloads.harness.probes.gpu import clock_drift
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import detail
from workloads.harness.records.verdict import judge


@pytest.fixture
def cuda():
    return FakeCuda(waiting_s=5e-6)


def no_profile():
    """Return the answer of a machine that forbids profiling."""


@pytest.fixture
def clock(cuda, monkeypatch):
    return cuda.install(monkeypatch)


class TestBusy:
    def test_a_device_that_waits_for_its_host_is_distinguished_from_one_that_works(self, cuda, clock):
        def step():
            for _ in range(60):
                cuda.launch(1e-6)

        step_s = clock.time(step, 10).device_s / 10
        assert step_s == pytest.approx(60 * LAUNCH_S, rel=0.05)  # the events see the host's speed
        found_s, why = busy_s(step, clock, 60, step_s, no_profile)
        assert found_s == pytest.approx(60e-6, rel=0.01)
        assert why == ""

    @pytest.mark.parametrize("seconds", [30e-6, 10e-3, 0.2])
    def test_a_device_that_is_never_idle_is_busy_all_the_time(self, cuda, clock, seconds):
        step_s = clock.time(lambda: cuda.launch(seconds), 3).device_s / 3
        found_s, _ = busy_s(lambda: cuda.launch(seconds), clock, 1, step_s, no_profile)
        assert found_s == pytest.approx(seconds, rel=0.01) and step_s == pytest.approx(seconds, rel=0.1)

    def test_a_step_that_waits_for_its_device_has_no_busy_time_and_the_reason(self, cuda, clock):
        def step():
            cuda.launch(1e-3)
            cuda.synchronize()

        found_s, why = busy_s(step, clock, 1, 1e-3, no_profile)
        assert found_s is None
        assert why.startswith("a step of 1 operations can't be queued as one (it waits for the device")

    def test_a_step_that_no_queue_takes_is_profiled(self, cuda, clock):
        def step():
            for _ in range(1500):
                cuda.launch(1e-6)

        step_s = clock.time(step, 3).device_s / 3
        assert clock.busy_s(step, 1, 0.5) is None and clock.busy_s(lambda: cuda.launch(1e-6), 900, 0.5)
        assert busy_s(step, clock, 1500, step_s, lambda: 1.5e-3) == (1.5e-3, "")
        found_s, why = busy_s(step, clock, 1500, step_s, no_profile)
        assert found_s is None and "or is longer than a stream's queue" in why

    def test_a_host_has_no_busy_time(self):
        assert HostClock().busy_s(lambda: None, 1, 0.1) is None

    def test_a_record_says_that_it_is_bound_by_launches(self):
        step = timing(median_s=240e-6, samples_s=(240e-6,) * 3)
        made = replace(FULL, device_time=step, device_busy_s=60e-6)
        assert made.launch_bound
        assert "60 µs of 240 µs by events; launch-bound: the device waits for its host for 75%" in detail(
            made
        )
        assert not replace(made, device_busy_s=239e-6).launch_bound
        assert not replace(made, device_busy_s=None).launch_bound


class TestLatency:
    def test_tails_are_of_single_steps(self):
        found = latency([1.0] * 95 + [2.0] * 4 + [9.0])
        assert (found.steps, found.p50_s, found.p95_s, found.p99_s, found.max_s) == (100, 1.0, 1.0, 2.0, 9.0)
        assert latency([1.0] * 99).p99_s is None

    def test_short_steps_are_timed_individually(self, cuda, clock):
        singles = singles_s(lambda: cuda.launch(20e-6), clock)
        assert len(singles) == 300
        assert min(singles) > 24e-6  # with its launch, and the wait for its end


class TestOnDevice:
    def test_measurements_on_a_device_warm_up_for_seconds(self):
        rules = Rules().on_device()
        assert (rules.warm_min_s, rules.stretch_s, rules.settle_s, rules.sample_min_s) == (3.0, 1.0, 0.3, 2.0)

    @pytest.mark.parametrize("quick", [True, False])
    def test_every_repeat_samples_for_long_enough_to_read_energy(self, quick):
        order = Repeat("r", "h", FULL.case, repeat=2, quick=quick, device="cuda")
        assert rules_of(order).sample_min_s == 2.0 > GPU_MIN_WINDOW_S
        assert rules_of(order).sample_cap_s == (4.0 if quick else 10.0)
        assert rules_of(replace(order, device="cpu")).sample_min_s == (1.5 if quick else 2.0)

    @pytest.mark.parametrize("step_s", [10e-3, 50e-3])
    def test_a_clock_that_settles_within_the_samples_is_steady(self, step_s):
        """It falls by 2 % at the card's power limit, during the first look."""
        order = Repeat("r", "h", FULL.case, repeat=1, quick=True, device="cuda")

        def falling(chance, now_s, call):
            return (1 - 0.02 * math.exp(-max(now_s - 2.0, 0.0))) * quiet(chance, now_s, call)

        measured = streams(falling, step_s, 10, rules_of(order))
        assert all(abs(stream.mean - 1) < 0.01 for stream in measured)
        assert sum(stream.ok for stream in measured) > 5 and max(s.now_s - s.warm_s for s in measured) < 4.1

    @pytest.mark.parametrize(("clocks", "verdicts"), [((1980, 1880), [Verdict.UNSTEADY]), ((1980, 1975), [])])
    def test_a_clock_that_moves_within_the_samples_is_unsteady(self, clocks, verdicts):
        probes, missing = clock_drift([clocks[0]] * 10 + [clocks[1]] * 10)
        assert missing == {}
        found = judge(timing(precision_reached=True), probes, 1.0, None)
        assert [verdict for verdict, _ in found] == verdicts
        if verdicts:
            assert found[0][1] == "the GPU's clock fell by 5.1% within the samples"

    def test_too_few_readings_of_a_clock_are_missing_for_a_reason(self):
        assert clock_drift([1.0] * 5) == (
            {},
            {"sm_clock_drift": "5 samples of the clock are too few for two halves"},
        )
