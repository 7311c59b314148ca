import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.results.format import ratio_of_rounded
from tasks.results.repeats import group
from tasks.results.speedup import ONE_REPEAT, corrected, decide, per_unit, refusal, speedup
from tasks.results.values import Estimate, RatioVerdict
from tests.tasks.examples.records import MATMUL, failed, repeats, work
from workloads.harness.records.record import Verdict

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=6)


@settings(deadline=None)
@given(base=TIMES, side=TIMES)
def test_swapping_the_sides_inverts_ratio_and_outcome(base, side):
    one, other = speedup(base, side), speedup(side, base)
    assert one.estimate.value == pytest.approx(1 / other.estimate.value)
    if one.estimate.low is not None:
        assert one.estimate.low == pytest.approx(1 / other.estimate.high)
        assert one.estimate.high == pytest.approx(1 / other.estimate.low)
    opposite = {RatioVerdict.FASTER: RatioVerdict.SLOWER, RatioVerdict.SLOWER: RatioVerdict.FASTER}
    assert other.outcome is opposite.get(one.outcome, RatioVerdict.UNDECIDED)


@settings(deadline=None)
@given(base=TIMES, side=TIMES, scale=st.floats(1e-3, 1e3))
def test_scaling_all_times_changes_nothing(base, side, scale):
    one, other = speedup(base, side), speedup([t * scale for t in base], [t * scale for t in side])
    assert other.estimate.value == pytest.approx(one.estimate.value)
    if one.estimate.low is not None:
        assert math.log(other.estimate.low) == pytest.approx(math.log(one.estimate.low), abs=1e-6)


@settings(deadline=None)
@given(base=TIMES, side=TIMES)
def test_an_outcome_needs_an_interval_that_excludes_a_ratio_of_1(base, side):
    ratio = speedup(base, side)
    low, high = ratio.estimate.low, ratio.estimate.high
    assert (low is None) == (min(len(base), len(side)) < 2)
    assert (ratio.outcome is RatioVerdict.FASTER) == (low is not None and low > 1)
    assert (ratio.outcome is RatioVerdict.SLOWER) == (high is not None and high < 1)
    assert bool(ratio.why) == (ratio.outcome is RatioVerdict.UNDECIDED)


@pytest.mark.parametrize(("repeats_a", "repeats_b"), [(3, 3), (5, 3), (5, 5)])
@pytest.mark.parametrize("between", [0.0, 0.01, 0.02, 0.04])
def test_the_interval_covers_the_truth_as_often_as_it_says(between, repeats_a, repeats_b):
    """Repeats differ by `between`, samples by 2 %; a repeat is the median of 15 samples."""
    chance, truth, draws = np.random.default_rng(7), 27.2, 700

    def medians(centre, n):
        boxes = chance.normal(0, between, (draws, n, 1))
        return centre * np.median(np.exp(boxes + chance.normal(0, 0.02, (draws, n, 15))), axis=2)

    sides = zip(medians(truth, repeats_a).tolist(), medians(1.0, repeats_b).tolist(), strict=True)
    estimates = [speedup(a, b).estimate for a, b in sides]
    covered = sum(e.low <= truth <= e.high for e in estimates) / draws
    assert 0.92 <= covered <= 0.98


def test_one_repeat_is_never_decided():
    ratio = speedup([10.0], [1.0, 1.0, 1.0])
    assert ratio.estimate == Estimate(pytest.approx(10))
    assert (ratio.outcome, ratio.why) == (RatioVerdict.UNDECIDED, ONE_REPEAT)


def test_no_times_no_ratio():
    assert speedup([], [1.0]) is None
    assert speedup([1.0], []) is None


def test_an_undecided_ratio_says_how_many_repeats_would_tell():
    ratio = decide(Estimate(1.05, 0.98, 1.125), 3)
    assert ratio.why == "the interval 0.98–1.12 spans 1: run with --repeats 5 or more"


def test_sides_that_no_affordable_repeats_tell_apart_are_called_equal():
    assert decide(Estimate(1.001, 0.98, 1.02), 5).why == "the interval 0.980–1.020 spans 1: equal within 2 %"
    assert decide(Estimate(1.0, 0.8, 1.25), 3).why == (
        "the interval 0.80–1.25 spans 1: run with --repeats 20 or more, or on a quieter machine"
    )


def test_a_step_of_more_work_counts_per_unit():
    weak = repeats([1.25] * 3, hardware="eight", work=work_times(8))
    side, base = _cell(weak), _cell(repeats([1.0] * 3, hardware="one"))
    assert speedup(*per_unit(base, side)).estimate.value == pytest.approx(8 / 1.25)


def test_the_same_work_keeps_its_plain_times():
    side, base = _cell(repeats([1.0], hardware="one")), _cell(repeats([2.0], hardware="two"))
    assert per_unit(base, side) == ([2.0], [1.0])
    assert per_unit(base, side, end_to_end=True) == ([2.0], [1.0])


def test_refusals_say_who_and_why():
    good = _cell(repeats([1.0]))
    oom = _cell([failed(Verdict.OUT_OF_MEMORY, "tried to allocate 6.4 GB", hardware="gpu")])
    assert refusal(good, good) == ""
    assert refusal(None, good) == "the baseline has not measured this case"
    assert refusal(good, oom) == "gpu is out_of_memory: tried to allocate 6.4 GB"
    assert refusal(oom, good) == "the baseline, gpu, is out_of_memory: tried to allocate 6.4 GB"


def test_published_ratios_are_no_better_than_their_rounding():
    """The AWS blog's table, in seconds rounded to 10 ms."""
    fifty = ratio_of_rounded(0.50, 0.01, 0.01)
    assert (fifty.value, round(fifty.low), round(fifty.high)) == (50, 33, 101)
    for over, under, low, high in (
        (1.46, 0.04, 32.3, 41.9),
        (2.45, 0.09, 25.7, 28.9),
        (0.29, 0.16, 1.73, 1.90),
    ):
        bounds = ratio_of_rounded(over, under, 0.01)
        assert (bounds.low, bounds.high) == (pytest.approx(low, rel=0.005), pytest.approx(high, rel=0.005))


def work_times(factor):
    plain = work(MATMUL)
    return type(plain)(plain.units * factor, plain.unit, plain.flops * factor, plain.bytes * factor)


def _cell(records):
    return group(records, (), {})[0]


def equal_machines(chance, cases, shift=0.0):
    """Return speedups of equal machines except in the first case, by three repeats of 1 %."""
    sides = [[[math.exp(chance.gauss(0, 0.01)) for _ in range(3)] for _ in range(2)] for _ in range(cases)]
    sides[0][0] = [seconds * math.exp(shift) for seconds in sides[0][0]]
    return [speedup(*side) for side in sides]


def decided(ratios):
    return [ratio for ratio in corrected(ratios) if ratio.outcome is not RatioVerdict.UNDECIDED]


def test_among_many_equal_cases_none_is_called_unequal_nineteen_times_in_twenty():
    chance = random.Random(3)
    runs = [equal_machines(chance, 14) for _ in range(200)]
    alone = sum(any(r.outcome is not RatioVerdict.UNDECIDED for r in run) for run in runs)
    together = sum(bool(decided(run)) for run in runs)
    assert alone / len(runs) > 0.3  # each verdict by itself
    assert together / len(runs) <= 0.09


def test_a_large_difference_holds_among_many_cases():
    chance = random.Random(4)
    assert sum(bool(decided(equal_machines(chance, 14, math.log(2)))) for _ in range(50)) >= 45
    assert len(decided([speedup([2.0, 2.01, 1.99], [1.0, 1.001, 0.999])] * 14)) == 14
    assert decided([speedup([2.0], [1.0])]) == []
    assert corrected([None]) == [None]


def test_a_ratio_that_is_not_significant_among_many_keeps_its_interval_and_says_how_many_repeats_it_takes():
    one = speedup([1.03, 1.04, 1.02], [1.0, 1.005, 0.995])
    assert one.outcome is RatioVerdict.FASTER and 0.01 < one.chance < 0.05 and corrected([one]) == [one]
    among, *_ = corrected([one, *[speedup([1.0, 1.1, 0.9], [1.0, 0.9, 1.1])] * 13])
    assert among.outcome is RatioVerdict.UNDECIDED and among.differs_alone and not one.differs_alone
    assert among.estimate == one.estimate and among.chance == one.chance
    assert (
        among.repeats_needed > 3
        and f"--repeats {among.repeats_needed}" in among.why
        and "14 comparisons" in among.why
    )
