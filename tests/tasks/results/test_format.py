import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.results.format import (
    format_duration,
    format_percent,
    format_plus_minus,
    format_ratio,
    format_seconds,
    format_usd,
    ratio_of_rounded,
)
from tasks.results.values import Estimate, Ratio, RatioVerdict


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(27.2222, 26.08, 28.42), "27.2× (26.1–28.4)"),
        (Estimate(1.8243, 1.7512, 1.9001), "1.82× (1.75–1.90)"),
        (Estimate(50.0, 33.0, 101.0), "50× (33–101)"),
        (Estimate(1234.0, 900.0, 1700.0), "1230× (900–1700)"),
        (Estimate(2.0, 2.0, 2.0), "2.000× (2.000–2.000)"),
        (Estimate(0.0227, 0.017, 0.029), "0.023× (0.017–0.029)"),
        (Estimate(1.3, 0.012, 161.0), "1× (0.01–160)"),  # known to a power of ten, and no 0
        (Estimate(1.8243), "~1.8×"),
        (Estimate(50.0), "~50×"),
        (Estimate(1234.0), "~1200×"),
    ],
)
def test_ratios_show_only_digits_that_their_interval_supports(estimate, text):
    assert format_ratio(estimate) == text
    assert format_ratio(Ratio(estimate, RatioVerdict.UNDECIDED)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.2345, "1.23 s"),
        (0.012345, "12.3 ms"),
        (0.000_012_345, "12.3 µs"),
        (1.5e-8, "0.0150 µs"),
        (123.4, "123 s"),
        (0.0, "0.00 µs"),
        (Estimate(0.01234, 0.0121, 0.0125), "12.34 ms (12.10–12.50)"),
        (Estimate(0.01234, 0.0111, 0.0135), "12.3 ms (11.1–13.5)"),
        (Estimate(0.01234), "~12 ms"),
        (None, "–"),
    ],
)
def test_times_come_in_engineering_units(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (12.345, "$12.3"),
        (0.000_012_345, "$0.0000123"),
        (Estimate(0.0122, 0.0120, 0.0124), "$0.01220 (0.01200–0.01240)"),
        (Estimate(0.0122, 0.0100, 0.0150), "$0.0122 (0.0100–0.0150)"),
        (Estimate(0.0122), "~$0.012"),
        (None, "–"),
    ],
)
def test_amounts_of_money_are_formatted(usd, text):
    assert format_usd(usd) == text


def test_shares_are_formatted_and_missing_values_are_dashes():
    assert format_percent(Estimate(0.806, 0.791, 0.820)) == "80.6 % (79.1–82.0)"
    assert format_percent(None) == format_ratio(None) == "–"


@settings(deadline=None)
@given(value=st.floats(1e-6, 1e6), down=st.floats(1e-6, 0.5), up=st.floats(1e-6, 0.5))
def test_rounding_moves_a_bound_by_a_tenth_of_the_half_width_or_the_fourth_digit(value, down, up):
    estimate = Estimate(value, value * (1 - down), value * (1 + up))
    shown = format_ratio(estimate)
    low, high = (float(bound) for bound in shown.partition("(")[2].rstrip(")").split("–"))
    fourth = 0.5 * 10.0 ** (math.floor(math.log10(value)) - 3)
    allowed = 1.0001 * max((estimate.high - estimate.low) / 20, fourth)
    assert abs(low - estimate.low) <= allowed
    assert abs(high - estimate.high) <= allowed


def test_a_time_that_rounds_to_nothing_bounds_no_ratio():
    assert ratio_of_rounded(0.5, 0.005, 0.01).high == math.inf


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (Estimate(187_560.0, 181_000.0, 194_000.0), "52.1 h (50.3–53.9)"),
        (Estimate(7200.0), "~2.0 h"),
        (1025.0, "17.1 min"),
        (119.0, "119 s"),
        (0.012, "12.0 ms"),
        (None, "–"),
    ],
)
def test_long_times_are_written_as_people_wait_for_them(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(1.23e-3, 1.20e-3, 1.26e-3), "1.2 ms ± 2.4 %"),
        (Estimate(1.0, 0.1, 11.0), "1.0 s within a factor of 11"),
        (Estimate(0.5), "~500 ms"),
    ],
)
def test_a_time_has_the_larger_half_of_its_interval(estimate, text):
    assert format_plus_minus(estimate).replace("~", "") == text.replace("~", "")
