import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from workloads.harness.records.intervals import (
    correlation_time,
    half_of_mean,
    log_mean_interval,
    mean_interval,
    median_interval,
    outliers,
    pooled_variance,
    ratio_interval,
    t_quantile,
    t_tail,
    variance,
    variances,
)

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=10)
SCALES = st.floats(1e-3, 1e3)


@settings(deadline=None)
@given(p=st.floats(0.001, 0.999), df=st.floats(1, 500))
def test_t_quantile_is_scipys(p, df):
    assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("t", [0.0, 0.5, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("df", [1, 2, 9, 300])
def test_a_tail_is_scipys_also_far_out(t, df):
    assert t_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-7, abs=1e-300)


@pytest.mark.parametrize(("p", "df"), [(0, 3), (1, 3), (0.5, 0), (0.5, -1)])
def test_t_quantile_refuses_invalid_arguments(p, df):
    with pytest.raises(ValueError, match="needs 0 < p < 1"):
        t_quantile(p, df)


@pytest.mark.parametrize("n", [6, 7, 10, 11, 30, 100, 301])
def test_the_median_interval_is_the_tightest_that_the_binomial_law_allows(n):
    interval = median_interval(list(range(1, n + 1)))
    rank = int(interval.low)
    assert interval.high == n + 1 - rank
    assert 1 - 2 * stats.binom.cdf(rank - 1, n, 0.5) >= 0.95
    assert 1 - 2 * stats.binom.cdf(rank, n, 0.5) < 0.95


@pytest.mark.parametrize("n", range(6))
def test_the_median_has_no_interval_below_six_samples(n):
    assert median_interval([1.0] * n) is None


def test_the_median_interval_covers_a_skewed_median():
    chance = random.Random(1)
    hits = 0
    for _ in range(1000):
        interval = median_interval([chance.expovariate(1) for _ in range(25)])
        hits += interval.low <= math.log(2) <= interval.high
    assert 0.94 <= hits / 1000 <= 0.98


def test_outliers_are_those_beyond_tukeys_fences():
    calm = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    assert outliers(calm) == (0, 0)
    assert outliers([*calm, 30]) == (1, 0)
    assert outliers([*calm, 30, 100]) == (1, 1)
    assert outliers([1, 100, 1000]) == (0, 0)


@settings(deadline=None)
@given(times=TIMES)
def test_the_log_mean_interval_is_scipys(times):
    interval = log_mean_interval(times)
    logs = [math.log(t) for t in times]
    assert interval.value == pytest.approx(stats.gmean(times))
    if statistics.stdev(logs) > 1e-6:
        low, high = stats.t.interval(0.95, len(logs) - 1, sum(logs) / len(logs), stats.sem(logs))
        assert math.log(interval.low) == pytest.approx(low, rel=1e-6, abs=1e-6)
        assert math.log(interval.high) == pytest.approx(high, rel=1e-6, abs=1e-6)


@settings(deadline=None)
@given(over=TIMES, under=TIMES)
def test_the_ratio_interval_is_welchs(over, under):
    interval = ratio_interval(over, under)
    a, b = ([math.log(t) for t in side] for side in (over, under))
    if min(statistics.stdev(a), statistics.stdev(b)) > 1e-6:
        expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
        assert math.log(interval.low) == pytest.approx(expected.low, rel=1e-5, abs=1e-6)
        assert math.log(interval.high) == pytest.approx(expected.high, rel=1e-5, abs=1e-6)


@settings(deadline=None)
@given(over=TIMES, under=TIMES)
def test_swapping_the_sides_inverts_the_ratio(over, under):
    one, other = ratio_interval(over, under), ratio_interval(under, over)
    assert one.value == pytest.approx(1 / other.value)
    assert one.low == pytest.approx(1 / other.high)
    assert one.high == pytest.approx(1 / other.low)


@settings(deadline=None)
@given(over=TIMES, under=TIMES, scale=SCALES)
def test_the_unit_of_time_does_not_matter(over, under, scale):
    plain = ratio_interval(over, under)
    other = ratio_interval([t * scale for t in over], [t * scale for t in under])
    assert other.value == pytest.approx(plain.value)
    assert math.log(other.low) == pytest.approx(math.log(plain.low), abs=1e-6)


@settings(deadline=None)
@given(time=st.floats(1e-6, 1e3))
def test_one_repeat_has_no_interval(time):
    assert log_mean_interval([time]) is None
    assert ratio_interval([time], [time, time]) is None
    assert ratio_interval([time, time], [time]) is None


@given(st.lists(st.floats(-12, 12), min_size=2, max_size=20))
def test_variance_is_that_of_exact_arithmetic(values):
    assert variance(values) == pytest.approx(statistics.variance(values), rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9])
def test_a_first_order_process_has_its_known_correlation_time(kept):
    """(1 + r) / (1 - r), the growth of its mean's variance."""
    pairs = [kept**lag + kept ** (lag + 1) for lag in range(0, 1000, 2)]
    assert correlation_time(pairs) == pytest.approx((1 + kept) / (1 - kept))


def test_the_correlation_time_ends_where_a_pair_of_lags_is_not_positive():
    assert correlation_time([1.5, 0.25, 0.0, 9.0]) == 2.5
    assert correlation_time([]) == correlation_time([-1.0]) == 1.0


@settings(deadline=None)
@given(values=st.lists(st.floats(-12, 12), min_size=3, max_size=20))
def test_half_of_a_mean_is_scipys(values):
    if statistics.stdev(values) > 1e-6:
        low, high = stats.t.interval(0.9, len(values) - 1, statistics.fmean(values), stats.sem(values))
        assert half_of_mean(values, 0.9) == pytest.approx((high - low) / 2)
        assert mean_interval(values, 0.9).low == pytest.approx(low, abs=1e-9)


@given(st.lists(st.lists(st.floats(-12, 12), min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_pooled_variance_is_that_of_the_distances_from_the_means_of_groups(groups):
    squares = [(value - statistics.fmean(group)) ** 2 for group in groups for value in group]
    freedom = len(squares) - len(groups)
    value, known = pooled_variance(variances(groups))
    assert known == freedom
    assert value == pytest.approx(math.fsum(squares) / freedom if freedom else 0.0, rel=1e-9, abs=1e-18)
