import math

import pytest
from scipy import stats

from tasks.findings.acceptance.advice import Advice
from tasks.findings.acceptance.prediction import (
    FALSE_RETURNS,
    Measure,
    chance_of,
    limit,
    slowness_by_measure,
    sound_members,
    time_ratio,
)
from tests.tasks.findings.acceptance.simulated_machines import (
    ALL_20,
    MEASURES,
    Population,
    simulate,
)
from workloads.harness.records.case import Case

SIBLINGS = [[0.0, 0.002], [0.02, 0.018], [-0.03, -0.03], [0.01, 0.012], [-0.01, -0.008]]
MEANS = [0.001, 0.019, -0.03, 0.011, -0.009]
ONE, OTHER = (Measure(Case.of("matmul", {"n": n})) for n in (1, 2))


def test_the_chance_and_the_limit_are_those_of_one_further_value_of_a_normal_population():
    error = stats.tstd(MEANS) * math.sqrt(1 + 1 / 5)
    excess = 0.09 - sum(MEANS) / 5
    assert chance_of([0.09], SIBLINGS) == pytest.approx(stats.t.sf(excess / error, 4))
    assert chance_of([-0.09], SIBLINGS) > 0.99
    assert math.log(limit(SIBLINGS, 0.005)) == pytest.approx(stats.t.isf(0.005, 4) * error)
    assert limit([[0.0], [1e-6], [-1e-6]], 0.005) == pytest.approx(1.05)


def test_the_ratio_is_over_the_typical_sibling_with_an_interval_of_both_scatters():
    ratio = time_ratio([0.1, 0.102], SIBLINGS)
    assert math.log(ratio.value) == pytest.approx(0.101 - sum(MEANS) / 5)
    between, within = stats.tvar(MEANS) / 5, 2e-6 / 2  # its own repeats', which is above the mean of all
    degrees = (between + within) ** 2 / (between**2 / 4 + within**2 / 6)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(between + within)
    assert math.log(ratio.high / ratio.value) == pytest.approx(half)
    assert time_ratio([0.1], [[0.0], [0.1], [0.2]]).low is None  # no machine has a second repeat


def test_of_several_measures_the_slowest_must_be_the_slower_the_more_there_are():
    others = [{ONE: logs, OTHER: logs} for logs in SIBLINGS]
    level = FALSE_RETURNS / 2
    slow = math.log(limit(SIBLINGS, level)) + sum(MEANS) / 5
    alone = slowness_by_measure({ONE: [slow - 0.002, slow - 0.002]}, others)
    assert alone[ONE].is_slow and alone[ONE].limit == pytest.approx(limit(SIBLINGS, FALSE_RETURNS))
    both = slowness_by_measure({ONE: [slow - 0.002] * 2, OTHER: [0.0, 0.001]}, others)
    assert not both[ONE].is_slow and both[ONE].limit == both[OTHER].limit == pytest.approx(
        limit(SIBLINGS, level)
    )
    both = slowness_by_measure({ONE: [slow + 0.002] * 2, OTHER: [slow - 0.002] * 2}, others)
    assert both[ONE].is_slow and both[OTHER].is_slow  # Holm: the second has the whole level to itself
    assert slowness_by_measure({ONE: [0.0]}, others[:2]) == {}


def test_siblings_that_are_slow_themselves_are_left_out_one_after_the_other():
    members = {str(i): {ONE: [0.005 * (i % 3 - 1)] * 2} for i in range(8)}
    assert sound_members(members) == [*members]
    spoiled = members | {"slow": {ONE: [0.3, 0.3]}, "slower": {ONE: [0.6, 0.6]}}
    assert sound_members(spoiled) == [*members]
    three = {name: members[name] for name in "012"}
    assert sound_members(three | {"slow": {ONE: [0.9, 0.9]}}) == [*three]
    assert sound_members({"0": {ONE: [0.0]}, "1": {ONE: [0.0]}, "slow": {ONE: [0.9]}}) == ["0", "1", "slow"]


@pytest.mark.parametrize(("siblings", "least_returned"), [(3, 0.5), (5, 0.95), (10, 0.99)])
def test_few_good_cards_are_returned_and_few_slow_ones_kept(siblings, least_returned):
    """400 cards of each: 2 in 1000 exceed 9 false returns if 1 in 100 is allowed."""
    good = simulate(Population(0.02), siblings, runs=400)
    assert good[Advice.RETURN] <= 9
    slow = simulate(Population(0.02), siblings, ALL_20, runs=200)
    assert slow[Advice.RETURN] >= least_returned * 200 and slow[Advice.KEEP] == 0


def test_a_card_10_percent_slow_in_one_measure_is_kept_in_1_of_40_at_most():
    found = simulate(Population(0.03), 10, {MEASURES[1]: 0.1}, runs=300, is_typical=True)
    assert found[Advice.UNDECIDED] > 0
    assert found[Advice.KEEP] <= 15  # more would be had in 1 of 100 such tests
