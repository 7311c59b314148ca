import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.results.billing import affordable_s, usd
from tasks.results.cost import cost_efficiency, cost_words, usd_per_million_units
from tasks.results.speedup import ONE_REPEAT, speedup
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tests.tasks.examples.seed_table import CPU, GPU, ROWS


@pytest.mark.parametrize(
    ("times", "printed"),
    [
        *zip(ROWS.values(), (0.009, 20.6, 15.0, 11.2, 0.75, 5.6, 0.75, 4.2, 0.93), strict=True),
        ((10.13, 3.03), 1.38),
    ],
)
def test_cost_efficiency_of_the_published_table(times, printed):
    gain = speedup([times[0]], [times[1]])
    ratio = cost_efficiency(gain, CPU.usd_per_hour, GPU.usd_per_hour, 1)
    assert ratio.estimate.value == pytest.approx(printed, rel=0.05 if printed < 0.01 else 0.008)
    assert (ratio.outcome, ratio.why) == (RatioVerdict.UNDECIDED, ONE_REPEAT)


@settings(deadline=None)
@given(
    value=st.floats(0.01, 100), width=st.floats(1.001, 3), price=st.floats(0.1, 100), base=st.floats(0.1, 100)
)
def test_cost_has_the_relative_interval_of_the_speedup(value, width, price, base):
    gain = Ratio(Estimate(value, value / width, value * width), RatioVerdict.UNDECIDED)
    cost = cost_efficiency(gain, base, price, 3).estimate
    assert cost.value == pytest.approx(value * base / price)
    assert cost.high / cost.value == pytest.approx(width)
    assert cost.value / cost.low == pytest.approx(width)


def test_faster_can_be_dearer():
    gain = Ratio(Estimate(2.0, 1.9, 2.1), RatioVerdict.FASTER)
    assert cost_words(cost_efficiency(gain, 1.0, 4.0, 3)) == "dearer"
    assert cost_words(cost_efficiency(gain, 1.0, 1.0, 3)) == "cheaper"
    assert cost_words(cost_efficiency(gain, 1.0, 2.0, 3)) == "undecided"


@pytest.mark.parametrize("prices", [(None, 1.0), (1.0, None), (0.0, 1.0), (1.0, 0.0)])
def test_without_a_price_there_is_no_cost_ratio(prices):
    assert cost_efficiency(Ratio(Estimate(2.0), RatioVerdict.UNDECIDED), *prices, 3) is None
    assert cost_efficiency(None, 1.0, 1.0, 3) is None


def test_the_cost_per_million_units_follows_price_and_time():
    cost = usd_per_million_units(Estimate(0.036, 0.035, 0.037), 2, 1.0)
    assert cost.value == pytest.approx(5.0)
    assert (cost.low, cost.high) == (pytest.approx(0.035 / 0.036 * 5), pytest.approx(0.037 / 0.036 * 5))
    assert usd_per_million_units(None, 2, 1.0) is None
    assert usd_per_million_units(Estimate(1.0), None, 1.0) is None
    assert usd_per_million_units(Estimate(1.0), 2, None) is None
    assert usd(7200, 2.0) == pytest.approx(4.0)
    assert usd(7200, None) is None


def test_affordable_time_is_the_inverse_of_its_cost_and_zero_without_money():
    assert usd(affordable_s(2.5, 1.25), 1.25) == pytest.approx(2.5)
    assert affordable_s(2.5, 1.25) == 7200 and affordable_s(-1.0, 1.25) == 0
