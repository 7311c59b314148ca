import math

import pytest

from tasks.prediction.card_ratio import Rates, SharedCase, excess, load_spread, log_time_ratio, weight_after

OLD, NEW = Rates(100.0, 10.0), Rates(400.0, 20.0)


def test_each_part_of_the_time_changes_with_its_own_rate():
    assert math.exp(log_time_ratio(0.4, OLD, NEW)) == pytest.approx(0.4 / 4 + 0.6 / 2)
    assert weight_after(0.4, OLD, NEW) == pytest.approx(0.1 / 0.4)
    assert log_time_ratio(0.4, OLD, OLD) == 0


def test_shared_cases_shift_and_narrow_predictions_of_similar_cases():
    spread = load_spread()
    nothing, alone = excess(0.2, [], spread)
    shift, sd = excess(0.2, [SharedCase(0.2, 0.3)] * 5, spread)
    assert nothing == 0 and 0.15 < shift < 0.3 and sd < alone
    other, wide = excess(1.0, [SharedCase(0.0, 0.3)] * 5, spread)
    assert abs(other) < shift and wide > sd


def test_shared_cases_that_disagree_make_intervals_wider():
    spread = load_spread()
    agree = excess(0.2, [SharedCase(0.2, 0.1)] * 4, spread)[1]
    differ = excess(0.2, [SharedCase(0.2, 0.6), SharedCase(0.2, -0.6)] * 2, spread)[1]
    assert differ > 1.5 * agree
