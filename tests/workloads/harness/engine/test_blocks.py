import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.harness.fake_cuda import FakeCuda
from tests.workloads.harness.virtual import VirtualTime
from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.blocks import Sampler, sized
from workloads.harness.engine.sampling.rules import Rules, block_size, blocks_of
from workloads.harness.engine.sampling.summary import burst_s, summarise, sustained, thinned
from workloads.harness.engine.timing import time_step

SOON = replace(Rules(), stretch_s=0.05, warm_min_s=0.1, sample_min_s=0.5)


class SharedCpu(VirtualTime):
    """A CPU that two processes share in turns of 4 ms."""

    TURN_NS = 4_000_000

    def sleep(self, seconds):
        now_ns, left_ns = round(self.now_s * 1e9), round(seconds * 1e9)
        while left_ns > 0:
            past_ns = now_ns % (2 * self.TURN_NS)
            if past_ns >= self.TURN_NS:  # the other one's turn
                now_ns += 2 * self.TURN_NS - past_ns
                continue
            spent_ns = min(left_ns, self.TURN_NS - past_ns)
            now_ns, left_ns = now_ns + spent_ns, left_ns - spent_ns
        self.now_s = now_ns / 1e9


@pytest.mark.parametrize("step_s", [10e-6, 55e-6, 0.5e-3])
def test_a_shared_cpu_spoils_no_median_and_shows_in_the_mean(monkeypatch, step_s):
    shared = SharedCpu().install(monkeypatch)
    found = time_step(lambda: shared.sleep(step_s), HostClock(), SOON, Phases()).wall
    assert found.median_s == pytest.approx(step_s, rel=0.02)
    assert found.ci_high_s == pytest.approx(step_s, rel=0.02)
    assert found.total_mean_s == pytest.approx(2 * step_s, rel=0.1)
    assert (found.precision_reached, found.steady) == (True, True)


def test_a_sample_holds_no_more_than_one_turn_of_a_scheduler(monkeypatch):
    shared = SharedCpu().install(monkeypatch)
    long = replace(SOON, block_min_s=10e-3)
    found = time_step(lambda: shared.sleep(55e-6), HostClock(), long, Phases()).wall
    assert found.median_s > 1.5 * 55e-6


class TestSizes:
    @given(step_s=st.floats(1e-9, 10), timer_s=st.floats(1e-8, 1e-3))
    def test_timing_costs_at_most_one_two_hundredth_of_a_block(self, step_s, timer_s):
        block, least_s = block_size(step_s, timer_s, Rules()), max(200 * timer_s, Rules().block_min_s)
        assert block >= 1
        assert block * step_s >= 0.999 * least_s
        assert block == 1 or (block - 2) * step_s <= 1.001 * least_s  # and no longer than that takes

    def test_a_step_that_is_long_enough_is_timed_alone(self):
        least_s = Rules().block_min_s
        assert block_size(least_s, 1e-7, Rules()) == 1
        assert block_size(least_s / 2, 1e-7, Rules()) in (2, 3)
        assert block_size(0.1, 1e-3, Rules()) in (2, 3)  # a clock that costs a millisecond

    @given(st.floats(1e-4, 100))
    def test_a_sample_has_an_odd_number_of_blocks_and_all_samples_fit_into_the_cap(self, block_s):
        for rules in (Rules(), Rules().quick()):
            count = blocks_of(block_s, rules)
            assert count % 2 == 1
            assert count == 1 or (count - 1) * block_s <= rules.sample_s * 1.001

    def test_a_devices_block_is_sized_by_blocks(self, monkeypatch):
        """Waiting for an end takes as long as ten launches, once a block."""
        cuda = FakeCuda(waiting_s=30e-6)
        clock = cuda.install(monkeypatch)
        sampler = sized(lambda: cuda.launch(1e-6), clock, lambda steps, result: None, 60e-6, Rules())
        block_s = clock.time(lambda: cuda.launch(1e-6), sampler.block).wall_s
        assert 200 * 60e-6 <= block_s < 2.2 * 200 * 60e-6

    def test_work_between_blocks_counts_in_the_size_of_a_sample(self, monkeypatch):
        time = VirtualTime().install(monkeypatch)
        rules = Rules()
        plain = sized(lambda: time.sleep(1e-3), HostClock(), lambda steps, result: None, 1e-7, rules)
        flushed = sized(
            lambda: time.sleep(1e-3), HostClock(), lambda steps, result: time.sleep(0.1), 1e-7, rules
        )
        assert (plain.count, flushed.count) == (33, 1)


class TestSamples:
    def test_the_median_of_an_odd_number_of_medians_is_the_median_itself(self):
        chance = random.Random(3)
        draws = [chance.lognormvariate(0, 1) for _ in range(99_000)]
        for count in (1, 3, 33):
            medians = [statistics.median(draws[i : i + count]) for i in range(0, len(draws), count)]
            assert statistics.median(medians) == pytest.approx(1.0, rel=0.03)

    def test_a_sampler_keeps_no_result_but_the_last(self):
        seen = []
        results = iter(range(100))
        sampler = Sampler(
            lambda: next(results), HostClock(), lambda steps, result: seen.append((steps, result)), 2, 3
        )
        sampler()
        assert seen == [(2, None), (2, 1), (2, 3)]
        assert (sampler.result, sampler.steps, len(sampler.timed.wall_s)) == (5, 6, 3)

    def test_the_mean_and_the_tails_are_of_blocks(self):
        blocks = [1.0, 1.0, 4.0, 1.0, 1.0, 1.0]
        found = summarise([1.0, 1.0], 5, blocks_s=blocks)
        assert (found.median_s, found.mean_s, found.max_s, found.steps) == (1.0, 1.5, 4.0, 30)

    def test_a_record_keeps_at_most_300_samples_and_100_of_the_warm_up(self, monkeypatch):
        time, chance = VirtualTime().install(monkeypatch), random.Random(1)
        rules = replace(Rules(), half_width=1e-6, hopeless=1e12)
        step = lambda: time.sleep(0.02 * chance.lognormvariate(0, 0.3))  # noqa: E731
        found = time_step(step, HostClock(), rules, Phases()).wall
        assert 200 < len(found.samples_s) <= 300
        assert len(found.warmup_s) <= 100
        assert thinned(range(1000)) == tuple(range(0, 1000, 10))

    def test_a_burst_is_the_first_second_of_a_warm_up(self):
        assert burst_s([1e-3] * 1200 + [2e-3] * 1000, 1) == 1e-3
        assert burst_s([], 1) is None
        assert burst_s([1e-3] * 100 + [2e-3] * 1000, 1) == 2e-3, "without its first 0.2 s"

    def test_the_burst_time_is_the_fastest_of_the_first_moments(self):
        warm_s = [1.4e-3] * 50 + [1.6e-3] * 100 + [1.3e-3] * 10  # the last ones begin after 0.1 s
        assert sustained([1.6e-3] * 4000, 1, 0.5, warm_s).burst_s == 1.4e-3
        assert sustained([1.6e-3] * 4000, 1, 0.5).burst_s is None

    def test_a_device_steps_on_between_the_counters_and_the_first_sample(self, monkeypatch):
        time, began = VirtualTime().install(monkeypatch), []
        rules = replace(SOON, settle_s=0.3)

        class Window:
            def __enter__(self):
                time.sleep(0.1)
                began.append(time.now_s)

            def __exit__(self, *error):
                pass

        def step():
            boost = bool(began) and time.now_s < began[0] + 0.2
            time.sleep(0.009 if boost else 0.01)

        found = time_step(step, HostClock(), rules, Phases(), Window())
        assert found.wall.mean_s == pytest.approx(0.01, rel=1e-3)
        assert found.window_steps > found.wall.steps
        assert min(found.wall.warmup_s) == pytest.approx(0.009, rel=1e-3)
