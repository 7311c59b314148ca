import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tasks.findings.totals import CommonCases, geomean_ratio, time_ratio, total_seconds
from tasks.results.cost import cost_efficiency
from tasks.results.speedup import speedup
from workloads.harness.records.case import Case

RUNS = 4000
NOISES = (
    0.01,
    *(pytest.param(noise, marks=pytest.mark.server) for noise in (0.005, 0.02, 0.03)),
)
SURE = 1e-6  # the chance to refute a right interval
TRUE = 27.2
TIMES_S = (0.01, 0.3, 1.0, 4.0)  # of a suite's cases, on the baseline
GAINS = (0.7, 1.5, 4.0, 10.0)


def held(estimates, truth):
    return sum(e.low <= truth <= e.high for e in estimates)


def assert_covers(found, runs=RUNS, most=0.97):
    assert 0.93 <= found / runs <= most, f"{100 * found / runs:.1f} % of {runs} intervals hold the truth"


def test_the_bars_distinguish_wrong_intervals_from_right_intervals():
    def passes(share):
        return binom.cdf(0.97 * RUNS, RUNS, share) - binom.cdf(0.93 * RUNS - 1, RUNS, share)

    assert passes(0.95) > 1 - SURE
    assert passes(0.92) < 0.02 and passes(0.98) < 0.02


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_intervals_of_a_speedup_hold_it(repeats, noise):
    chance = np.random.default_rng([repeats, round(1e4 * noise)])
    sides = np.exp(chance.normal(0, noise, (RUNS, 2, repeats)))
    assert_covers(held((speedup([*TRUE * a], [*b]).estimate for a, b in sides), TRUE))


@pytest.mark.server
@pytest.mark.parametrize(("one", "other"), [(0.005, 0.03), (0.03, 0.005)])
@pytest.mark.parametrize("repeats", [(3, 3), (3, 10), (10, 5)])
def test_also_where_one_machine_is_noisier_and_has_other_repeats(repeats, one, other):
    chance = np.random.default_rng([*repeats, round(1e4 * one)])
    sides = [np.exp(chance.normal(0, s, (RUNS, n))) for s, n in zip((one, other), repeats, strict=True)]
    pairs = zip(*sides, strict=True)
    assert_covers(held((speedup([*TRUE * a], [*b]).estimate for a, b in pairs), TRUE))


def suites(repeats, noise, runs):
    chance = np.random.default_rng([repeats, round(1e4 * noise), 4])
    cases = tuple(Case.of("matmul", {"n": n}) for n in range(len(TIMES_S)))
    base = np.log(TIMES_S)[:, None]
    side = base - np.log(GAINS)[:, None]
    for _ in range(runs):
        drawn = chance.normal(0, noise, (2, len(TIMES_S), repeats))
        logs = {"base": (base + drawn[0]).tolist(), "side": (side + drawn[1]).tolist()}
        yield CommonCases(cases, logs)


SUITE_RUNS = 2500


@pytest.mark.server
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_intervals_of_a_suites_totals_and_mean_speedup_hold_them(repeats, noise):
    total = math.fsum(TIMES_S)
    ratio = total / math.fsum(t / g for t, g in zip(TIMES_S, GAINS, strict=True))
    mean = math.prod(GAINS) ** (1 / len(GAINS))
    found = [
        (total_seconds(s, "base"), time_ratio(s, "base", "side"), geomean_ratio(s, "base", "side"))
        for s in suites(repeats, noise, SUITE_RUNS)
    ]
    most = 0.98 if repeats == 3 else 0.97  # Welch's interval of three rounds a side is a little wide
    for estimates, truth in zip(zip(*found, strict=True), (total, ratio, mean), strict=True):
        assert_covers(held(estimates, truth), SUITE_RUNS, most)


positive = st.floats(1e-6, 1e6)


@given(
    st.lists(positive, min_size=1, max_size=10),
    st.lists(positive, min_size=1, max_size=10),
    positive,
    positive,
)
def test_cost_ratio_times_price_ratio_is_the_speedup(baseline_s, times_s, baseline_usd, usd):
    gain = speedup(baseline_s, times_s)
    cost = cost_efficiency(gain, baseline_usd, usd, 3)
    for name in ("value", "low", "high"):
        found, truth = getattr(cost.estimate, name), getattr(gain.estimate, name)
        assert (found is None) == (truth is None)
        if truth is not None:
            assert found * (usd / baseline_usd) == pytest.approx(truth, rel=1e-12)
