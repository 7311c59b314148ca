import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.harness.engine import streams as s
from workloads.harness.engine.sampling.mean import autocorrelations, batch_size, mean_bounds, variance_growth
from workloads.harness.engine.sampling.ramp import ramp
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.sampling.stop import is_precise, sample, warm_up
from workloads.harness.engine.sampling.summary import sustained
from workloads.harness.records.intervals import inefficiency, median_interval

FEW = 40  # streams of a noise
CLOUD_MEAN = 1.08


def constant(*_):
    return 1.0


class TestBars:
    @pytest.mark.parametrize(
        ("noise", "true", "step_s"), [(s.gauss, 1.0, 40e-3), (s.bimodal, 1.03, 10e-3), (s.heavy, 1.0, 10e-3)]
    )
    def test_means_that_are_ok_are_within_one_percent(self, noise, true, step_s):
        found = s.row(s.streams(noise, step_s, FEW), true)
        assert found.ok >= 0.9 and found.wrong <= 0.1 and found.covered >= 0.85

    def test_in_cloud_noise_short_steps_are_ok_and_long_ones_wide(self):
        """The mean needs 6,000 steps, a minute of 10 ms steps."""
        short = s.row(s.streams(s.cloud, 1e-3, 10), CLOUD_MEAN)
        assert short.ok >= 0.8 and short.wrong <= 0.2
        long = s.row(s.streams(s.cloud, 10e-3, FEW), CLOUD_MEAN)
        assert long.ok <= 0.05 and long.covered >= 0.8 and long.unsteady <= 0.05
        assert long.seconds < 6  # it saw that it can't become precise

    @pytest.mark.parametrize("tau_s", [0.15, 1.0, 3.0])
    def test_on_a_ramp_in_time_none_that_is_ok_is_wrong(self, tau_s):
        found = s.row(s.streams(s.ramp(tau_s=tau_s), 10e-3, FEW), 1.0)
        assert found.ok >= 0.9 and found.wrong <= 0.05

    def test_a_ramp_that_outlasts_the_caps_is_unsteady(self):
        rules = Rules().quick()
        found = s.streams(s.ramp(tau_s=3.0), 10e-3, FEW, rules) + s.streams(s.drift, 10e-3, FEW, rules)
        assert s.share(stream.steady for stream in found) <= 0.05
        assert all(stream.sampled.drift > 0 for stream in found if not stream.steady and stream.warm.steady)
        assert all((stream.sampled.to_come or 0.0) > 0 for stream in found if stream.sampled.drift)

    def test_full_patience_is_not_worse_than_quick_on_a_ramp(self):
        for step_s in (10e-3, 100e-3):
            found = s.row(s.streams(s.ramp(tau_s=3.0), step_s, FEW // 2), 1.0)
            assert found.ok * found.wrong <= 0.05 and found.seconds < 14

    @pytest.mark.parametrize("noise", [s.neighbour, s.thermal, s.Slow])
    @pytest.mark.parametrize("step_s", [10e-3, 40e-3])
    def test_a_speed_that_comes_and_goes_for_seconds_is_wide(self, noise, step_s):
        found = s.streams(noise, step_s, FEW)
        assert s.share(stream.ok for stream in found) <= 0.05
        known = [stream.sampled.mean.batches for stream in found if not stream.sampled.precise]
        assert statistics.median(known) < 8

    def test_correlated_samples_have_the_interval_that_they_deserve(self):
        found = s.row(s.streams(s.Correlated, 10e-3, FEW), 1.0)
        assert found.ok >= 0.4 and found.wrong <= 0.1 and found.covered >= 0.85

    @pytest.mark.parametrize("rules", [Rules(), Rules().quick()])
    def test_few_correlated_samples_are_wide(self, rules):
        found = s.row(s.streams(s.Correlated, 40e-3, FEW, rules), 1.0)
        assert found.ok <= 0.15 and found.ok * found.wrong <= 0.05

    @pytest.mark.parametrize("step_s", [1.6e-3, 60e-3])
    def test_a_card_at_its_power_limit_has_a_sustained_rate(self, step_s):
        found = s.streams(s.PowerCapped, step_s, 100, Rules().quick().on_device())
        rates = [sustained(f.sampled.samples_s, f.block * f.blocks, f.rules.batch_s) for f in found]
        covered = s.share(rate.low_s <= step_s <= rate.high_s for rate in rates)
        assert 0.9 <= covered <= 0.99 and s.share(f.ok for f in found) >= 0.85
        assert statistics.median((rate.high_s - rate.low_s) / 2 / step_s for rate in rates) < 0.01

    def test_a_card_that_drifts_at_its_power_limit_is_unsteady(self):
        class Heating(s.PowerCapped):
            def __call__(self, chance, now_s, call):
                return super().__call__(chance, now_s, call) * (1 + 0.02 * now_s)

        found = s.streams(Heating, 60e-3, 20, Rules().quick().on_device())
        assert s.share(f.steady for f in found) <= 0.1

    def test_a_quiet_box_is_not_kept_busy(self):
        found = s.row(s.streams(s.quiet, 10e-3, FEW), 1.0)
        assert (found.ok, found.wrong) == (1.0, 0.0)
        assert found.seconds < 3.2
        assert s.row(s.streams(s.quiet, 10e-3, FEW, Rules().quick()), 1.0).seconds < 2.7

    def test_a_hopeless_measurement_stops_early_with_the_time_it_would_need(self):
        found = s.streams(s.cloud, 0.5, FEW)
        assert not any(stream.sampled.precise for stream in found)
        assert statistics.median(stream.now_s for stream in found) < 14  # two caps were 20 s
        needed = [stream.sampled.needed_s for stream in found if stream.sampled.needed_s]
        assert len(needed) > 0.8 * FEW and min(needed) > 15

    @pytest.mark.parametrize("step_s", [0.4, 2.0])
    def test_long_steps_settle_on_a_quiet_box_and_not_on_a_ramp(self, step_s):
        assert s.row(s.streams(s.quiet, step_s, FEW), 1.0).ok >= 0.95
        assert s.row(s.streams(s.ramp(tau_steps=15), step_s, FEW), 1.0).ok <= 0.25


class TestWarmUp:
    def test_all_samples_are_kept_and_steady_is_by_agreement(self):
        steps = iter([5.0] * 10 + [1.0] * 100)
        rules = replace(Rules(), stretch_s=0.0, stretch_samples=10, warm_min_s=0.3)
        warm = warm_up(lambda: next(steps), rules, iter(range(1000)).__next__)
        assert warm.samples_s[:5] == (5.0,) * 5
        assert warm.steady is False  # the clock ticks a second a look: the cap of 10 s comes first
        steps = iter([5.0] * 10 + [1.0] * 100)
        ticks = iter(i / 100 for i in range(1000))
        warm = warm_up(lambda: next(steps), rules, ticks.__next__)
        assert (len(warm.samples_s), warm.steady) == (30, True)

    def test_lasts_at_least_so_long(self):
        stream = s.Stream(constant, 1e-3, 0)
        warm = warm_up(stream.take, Rules(), lambda: stream.now_s)
        assert 1.0 <= stream.now_s < 1.1
        assert warm.steady

    def test_ends_at_the_cap_with_two_samples_at_the_least(self):
        stream = s.Stream(constant, 50.0, 0)
        warm = warm_up(stream.take, Rules(), lambda: stream.now_s)
        assert (len(warm.samples_s), warm.steady) == (2, False)

    def test_a_soak_lasts_as_long_as_it_is_asked_for(self):
        stream = s.Stream(constant, 10e-3, 0)
        warm = warm_up(stream.take, Rules().soaking(60.0), lambda: stream.now_s)
        assert 60 <= stream.now_s < 61 and warm.steady


class TestSampling:
    def test_takes_at_least_so_many_for_at_least_so_long(self):
        stream = s.Stream(constant, 0.01, 0)
        sampled = sample(stream.take, Rules(), lambda: stream.now_s)
        assert 2.0 <= stream.now_s < 2.1 and sampled.precise
        stream = s.Stream(constant, 0.5, 0)
        assert len(sample(stream.take, Rules(), lambda: stream.now_s).samples_s) == 10

    def test_takes_no_more_than_the_limit(self):
        rules = replace(Rules(), half_width=1e-9, hopeless=1e30)
        stream = s.Stream(lambda chance, *_: 1 + chance.random(), 1e-3, 0, rules)
        sampled = sample(stream.take, rules, lambda: stream.now_s)
        assert len(sampled.samples_s) <= 300 and not sampled.precise

    def test_a_step_longer_than_the_cap_is_taken_twice_and_is_not_precise(self):
        stream = s.Stream(constant, 100.0, 0).measure()
        assert (len(stream.sampled.samples_s), stream.sampled.precise) == (2, False)

    @pytest.mark.parametrize(("step_s", "warm"), [(0.6, 12), (2.5, 12), (9.0, 6)])
    def test_long_steps_are_sampled_six_times_after_one_or_two_agreements(self, step_s, warm):
        stream = s.Stream(s.quiet, step_s, 0).measure()
        assert stream.warm.steady
        assert warm <= len(stream.warm.samples_s) <= 2 * warm
        assert len(stream.sampled.samples_s) == 6
        assert stream.sampled.precise

    @pytest.mark.parametrize("step_s", [0.001, 0.1, 2.0])
    def test_brief_ends_after_a_few_samples_of_a_machine_that_never_settles(self, step_s):
        stream = s.Stream(lambda chance, now_s, call: 1 + call / 5, step_s, 0, Rules().brief()).measure()
        assert len(stream.sampled.samples_s) >= 2
        assert stream.calls * step_s < max(0.2, 6 * step_s)

    def test_quick_is_less_patient_and_not_less_precise(self):
        rules, quick = Rules(), Rules().quick()
        assert quick.sample_cap_s < rules.sample_cap_s and quick.warm_cap_s < rules.warm_cap_s
        assert quick.sample_min_s < rules.sample_min_s
        alike = ("half_width", "agreement", "min_samples", "drift")
        assert all(getattr(quick, name) == getattr(rules, name) for name in alike)

    def test_samples_that_drift_are_left_to_the_warm_up(self):
        stream = s.Stream(s.ramp(tau_s=1.0), 10e-3, 0)
        stream.warm, stream.rules = None, replace(stream.rules, sample_min_s=0.5)
        sampled = sample(stream.take, stream.rules, lambda: stream.now_s)
        assert sampled.early_s and sampled.drift == 0 and sampled.to_come is None
        assert statistics.median(sampled.early_s) < min(sampled.samples_s)

    @given(st.lists(st.floats(1e-6, 10), max_size=5))
    def test_fewer_than_six_samples_are_never_precise(self, samples):
        assert not is_precise(samples, replace(Rules(), half_width=0.5))


class TestRamp:
    def test_the_remaining_ramp_is_that_of_the_fitted_curve(self):
        chance = random.Random(1)
        times = [1 - 0.1 * math.exp(-place / 30) + 0.001 * chance.gauss(0, 1) for place in range(90)]
        found = ramp(times)
        assert found.to_come(1.0, 30) == pytest.approx(0.1 * math.exp(-75 / 30), rel=0.3)
        assert 0 < found.drift(1.0, 30) < found.to_come(1.0, 30)

    def test_noise_interruptions_and_fast_decays_leave_no_ramp(self):
        chance = random.Random(2)
        noise = [[1 + 0.003 * chance.gauss(0, 1) for _ in range(60)] for _ in range(100)]
        assert sum(ramp(times) is not None for times in noise) <= 5
        interrupted = [*noise[0][:40], 30.0, *noise[0][40:]]
        slow_at_first = [3.0, 1.2, *noise[1]]
        for times in (interrupted, slow_at_first):
            found = ramp(times)
            assert found is None or abs(found.to_come(1.0, 30)) < 0.005

    @pytest.mark.parametrize("times", [[], [1.0] * 7, [1.0] * 50])
    def test_few_times_and_equal_ones_are_no_ramp(self, times):
        assert ramp(times) is None


class TestMean:
    def test_a_batch_is_as_long_as_the_memory(self):
        chance, value, values = random.Random(3), 0.0, []
        for _ in range(20_000):
            value = 0.9 * value + math.sqrt(1 - 0.81) * chance.gauss(0, 1)
            values.append(value)
        assert variance_growth(values) == pytest.approx(19, rel=0.25)
        assert batch_size(values) == pytest.approx(36, rel=0.25)
        assert autocorrelations(values)[:3] == pytest.approx([1, 0.9, 0.81], abs=0.05)

    def test_intervals_of_correlated_values_hold_their_mean(self):
        held = []
        for seed in range(200):
            noise, chance = s.Correlated(), random.Random(seed)
            found = mean_bounds([noise(chance, 0.0, 0) for _ in range(400)])
            held.append(found.interval.low <= 1.0 <= found.interval.high)
        assert s.share(held) >= 0.88

    def test_few_values_and_alike_ones_are_few_batches(self):
        assert mean_bounds([]).batches == 0 and mean_bounds([1.0, 2.0]).interval is None
        walk = [1 + place / 100 for place in range(20)]
        assert mean_bounds(walk).batches == 0
        assert mean_bounds([1.0] * 20).batches == 20

    def test_a_bias_widens_the_interval(self):
        values = [1.0, 1.1] * 10
        plain, wide = mean_bounds(values).interval, mean_bounds(values, bias=0.1).interval
        assert plain.low - wide.low == pytest.approx(0.1) and wide.high - plain.high == pytest.approx(0.1)


class TestInefficiency:
    def test_independent_samples_say_as_much_as_they_are(self):
        stream = s.Stream(s.quiet, 1.0, 3)
        assert inefficiency([stream.step() for _ in range(300)]) < 1.5

    def test_four_identical_neighbours_count_as_one_sample(self):
        stream = s.Stream(s.quiet, 1.0, 3)
        fours = [value for value in (stream.step() for _ in range(75)) for _ in range(4)]
        assert 2.5 < inefficiency(fours) < 7
        narrow, wide = median_interval(fours), median_interval(fours, inefficiency=4.0)
        assert wide.high - wide.low > 1.4 * (narrow.high - narrow.low)

    def test_constant_or_few_samples_have_an_inefficiency_of_1(self):
        assert inefficiency([1.0] * 50) == inefficiency([1.0, 2.0, 3.0]) == 1.0
