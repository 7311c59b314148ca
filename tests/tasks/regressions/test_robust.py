import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.regressions.baseline import CENTRE_VARIANCE, RERUN_VARIANCE, TRIMMED
from tasks.regressions.robust import (
    FEW_PAIRS,
    half_of,
    inner_range,
    median_variance,
    memory,
    pseudomedian,
    slope,
    spread,
    spread_of_pairs,
    trimmed_mean,
    two_modes,
    typical_variance,
)

ROWS = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


@given(ROWS)
def test_median_and_trimmed_mean_are_those_of_numpy_and_scipy(values):
    row = np.array([values])
    assert half_of(row)[0] == pytest.approx(np.median(values), abs=1e-9)
    assert trimmed_mean(row, 0.2)[0] == pytest.approx(stats.trim_mean(values, 0.2), abs=1e-9)


@given(ROWS, st.integers(0, 5))
def test_gaps_count_as_nothing(values, gaps):
    row, holed = np.array([values]), np.array([[np.nan] * gaps + values + [np.nan]])
    for of in (half_of, pseudomedian, inner_range, lambda rows: spread(rows, half_of(rows))):
        assert of(holed)[0] == pytest.approx(of(row)[0], abs=1e-9)
    assert trimmed_mean(holed, 0.2)[0] == pytest.approx(trimmed_mean(row, 0.2)[0], abs=1e-9)


@pytest.mark.parametrize("count", [*FEW_PAIRS, 14, 15])
def test_the_spread_of_pairs_is_that_of_normal_values(count):
    found = [spread_of_pairs(values) for values in np.random.default_rng(count).normal(3, 2, (4000, count))]
    assert np.mean(found) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("count", [6, 8, 14])
def test_half_of_the_values_at_another_level_leave_the_spread_of_pairs_as_it_is(count):
    values = np.random.default_rng(count).normal(0, 1, (500, count))
    apart = values + 1000 * (np.arange(count) < count // 2)
    alone, two_levels = (np.median([spread_of_pairs(row) for row in rows]) for rows in (values, apart))
    assert 0.5 * alone < two_levels < 4 * alone  # the levels are 1000 apart


def test_a_row_without_values_is_nan():
    empty = np.full((2, 4), np.nan)
    for found in (
        half_of(empty),
        pseudomedian(empty),
        trimmed_mean(empty, 0.2),
        spread(empty, half_of(empty)),
    ):
        assert np.isnan(found).all()


def test_rows_do_not_mix():
    rows = np.array([[1.0, 2.0, 3.0], [10.0, np.nan, 30.0]])
    assert half_of(rows).tolist() == [2.0, 20.0] == trimmed_mean(rows, 0.0).tolist()


def test_one_outlier_of_five_hardly_moves_the_pseudomedian():
    quiet, astray = np.array([[0.0, 1.0, 2.0, 3.0, 4.0]]), np.array([[0.0, 1.0, 2.0, 3.0, 1e6]])
    assert pseudomedian(quiet)[0] == 2.0 and pseudomedian(astray)[0] <= 3.0
    assert inner_range(quiet)[0] == inner_range(astray)[0] == 2.0
    assert inner_range(np.array([[0.0, 9.0, np.nan, 5.0]]))[0] == 0.0  # of three nothing is left to disagree


def test_the_spread_is_the_standard_deviation_of_normal_values_and_of_a_pool_of_two():
    rng = np.random.default_rng(1)
    normal = rng.normal(0, 3.0, (2000, 60))
    assert spread(normal, trimmed_mean(normal, TRIMMED)).mean() == pytest.approx(3.0, rel=0.02)
    pool = rng.choice([-1.7, 1.7], (2000, 60)) + rng.normal(0, 1.0, (2000, 60))
    found = spread(pool, trimmed_mean(pool, TRIMMED))
    assert np.quantile(found, 0.01) > 0.85 * np.hypot(1.7, 1.0)


def test_two_modes_are_distinguished_from_one_and_their_spread_is_that_around_each():
    rng = np.random.default_rng(8)
    high = rng.random((500, 60)) < 0.5
    middle, apart, deviation = two_modes(np.where(high, 5.4, 2.0) + rng.normal(0, 1, high.shape))
    shown = apart > 0
    assert shown.mean() > 0.8
    assert middle[shown].mean() == pytest.approx(3.7, abs=0.1)
    assert apart[shown].mean() == pytest.approx(1.7, abs=0.15)
    assert deviation[shown].mean() == pytest.approx(1.0, abs=0.1)
    assert np.mean(two_modes(rng.normal(size=(2000, 60)))[1] > 0) < 0.16
    step = rng.normal(size=(500, 60)) + 6 * (np.arange(60) >= 30)
    assert np.mean(two_modes(step)[1] > 0) == 0
    outliers = rng.normal(size=(500, 60)) + 6 * (rng.random((500, 60)) < 0.05)
    assert np.mean(two_modes(outliers)[1] > 0) < 0.05
    assert not two_modes(np.full((1, 60), np.nan))[1].any() and not two_modes(np.zeros((1, 60)))[1].any()


@pytest.mark.parametrize("rows", [0, 3])
def test_rows_without_columns_have_no_modes(rows):
    middle, apart, deviation = two_modes(np.empty((rows, 0)))
    assert [len(middle), len(apart), len(deviation)] == [rows] * 3
    assert np.isnan(middle).all() and not apart.any() and not deviation.any()


def test_the_slope_is_clamped_and_needs_pairs():
    rng = np.random.default_rng(2)
    box, own = rng.normal(0, 3.0, (500, 60)), lambda: rng.normal(0, 1.0, (500, 60))
    assert slope(box + own(), box + own())[0].mean() == pytest.approx(0.9, abs=0.02)
    assert slope(-box, box)[0].max() == 0.0 and slope(9 * box, box)[0].min() == 1.0
    few = np.where(np.arange(60) < 14, box, np.nan)
    assert (slope(few, box)[1] == 14).all()
    assert (slope(box, np.ones_like(box))[0] == 0.0).all()


def test_memory_is_the_correlation_of_neighbours_and_zero_for_white_noise():
    rng = np.random.default_rng(3)
    state = np.zeros((800, 120))
    for night in range(1, 120):
        state[:, night] = 0.6 * state[:, night - 1] + rng.normal(0, 0.8, 800)
    assert memory(state).mean() == pytest.approx(0.6, abs=0.06)
    chance = memory(rng.normal(0, 1, (4000, 60)))
    assert np.mean(chance > 0) < 0.18  # LIKELY_Z
    assert memory(np.full((1, 5), np.nan))[0] == 0.0


def test_the_constants_of_robust_statistics_agree_with_a_simulation():
    rng = np.random.default_rng(4)
    for runs, variance in RERUN_VARIANCE.items():
        assert pseudomedian(rng.normal(size=(400_000, runs))).var() == pytest.approx(variance, rel=0.01)
    for count in (2, 3, 5, 10, 15):
        values = rng.normal(size=(200_000, count))
        assert np.median(values, axis=1).var() == pytest.approx(median_variance(count), rel=0.04)
        typical = typical_variance(float(np.median(values.var(axis=1, ddof=1))), count)
        assert typical == pytest.approx(1.0, rel=0.05)
    assert 60 * trimmed_mean(rng.normal(size=(60_000, 60)), TRIMMED).var() == pytest.approx(
        CENTRE_VARIANCE, rel=0.03
    )
