from dataclasses import replace
from datetime import date, timedelta
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.findings.answer import price_notes
from tasks.pricing.checks import OLD_DAYS, PLACEHOLDERS, Quote, doubts, jump, source_text, usd_text
from tasks.results.model import Machine

TODAY = date(2026, 11, 21)
SOUND = Quote(2.448, "on-demand", TODAY, "us-east-1")


def said(**changes):
    return doubts(replace(SOUND, **changes), TODAY)


def test_a_sound_price_has_no_doubts():
    assert said() == said(elsewhere=(("eu-west-1", 2.7),), hosts=(("n1", 0.47),)) == ()


@pytest.mark.parametrize("usd", [nan, inf, -inf, -0.01])
def test_an_invalid_price_is_the_only_doubt(usd):
    (doubt,) = said(usd_per_hour=usd, date=date(2020, 1, 1))
    assert "is not a price: it must be finite and not negative" in doubt


@pytest.mark.parametrize(
    ("usd", "words"),
    [
        (0.0, "0 USD/h stands for no price"),
        (99.99, "99.99 USD/h is all nines"),
        (999.0, "999 USD/h is all nines"),
        (9999.0, "9999 USD/h is all nines"),
        (700.0, "700 USD/h is a value that price catalogues hold"),
        (10_000.0, "10000 USD/h is a value"),
    ],
)
def test_placeholder_prices_are_doubted(usd, words):
    (doubt,) = said(usd_per_hour=usd)
    assert doubt.startswith(words)


@pytest.mark.parametrize("usd", [9.99, 0.99, 98.32, 113.9328, 27.44705, 199.0, 100.0])
def test_prices_that_only_look_odd_pass(usd):
    assert said(usd_per_hour=usd) == ()


@pytest.mark.parametrize(
    ("usd", "gpus", "words"),
    [
        (699.99, 1, "699.99 USD/h is more than 200 for one GPU"),
        (5000.0, 8, "5000 USD/h is more than 1600 for 8 GPUs"),
        (123456.0, 0, "123456 USD/h is more than 200 for one GPU or a machine without any"),
        (0.0001, 0, "0.0001 USD/h is less than any machine costs"),
    ],
)
def test_a_price_that_no_machine_costs_is_doubted(usd, gpus, words):
    (doubt,) = said(usd_per_hour=usd, gpus=gpus)
    assert doubt.startswith(words)
    assert said(usd_per_hour=699.0, gpus=8) == ()


@pytest.mark.parametrize(
    ("usd", "elsewhere", "doubtful"),
    [
        (24.48, (("eu-west-1", 2.7), ("us-west-2", 2.5)), True),
        (0.12, (("eu-west-1", 2.7), ("us-west-2", 2.5)), True),
        (2.7, (("eu-west-1", 27.0), ("us-west-2", 2.5)), False),  # the other one is to doubt
        (24.48, (("eu-west-1", 2.7),), True),
        (2.7, (("eu-west-1", 27.0),), False),
        (4.0, (("eu-west-1", 2.7),), False),
    ],
)
def test_a_price_far_from_that_of_other_regions(usd, elsewhere, doubtful):
    found = said(usd_per_hour=usd, elsewhere=elsewhere)
    assert bool(found) is doubtful and all("of eu-west-1" in doubt for doubt in found)


HOSTS = (("n1-highmem-8", 0.47321), ("a2-highgpu-1g", 0.73948))
HALF = (("eu-west-1", 2.7), ("us-west-2", 4.896))
SPOT = {"purchase": "spot", "usd_per_hour": 3.1}


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"snapshot_usd": 0.2}, "2.448 USD/h is 12 times the on-demand price on file, 0.2"),
        ({**SPOT, "on_demand_usd": 2.448}, "the spot price, 3.1 USD/h, is above the on-demand price, 2.448"),
        ({"usd_per_hour": 0.73948, "hosts": HOSTS}, "0.73948 USD/h is the price of the host a2-highgpu-1g without its GPU"),
        ({"elsewhere": HALF}, "2.448 USD/h in us-east-1 is exactly half of the price in us-west-2"),
        ({"date": date(2026, 11, 22)}, "the price is dated 2026-11-22, after 2026-11-21"),
    ],
)  # fmt: skip
def test_each_doubt_is_a_sentence_with_its_numbers(changes, doubt):
    assert said(**changes) == (doubt,)


@pytest.mark.parametrize(
    "changes",
    [
        {"snapshot_usd": 2.0},
        {"snapshot_usd": 12.0},
        {"purchase": "spot", "usd_per_hour": 0.2, "snapshot_usd": 3.0},
        {**SPOT, "on_demand_usd": 3.1},
        SPOT,
        {"usd_per_hour": 3.67339, "hosts": HOSTS},
        {"usd_per_hour": 0.73948},
        {"elsewhere": (("us-west-2", 4.9),)},
        {"elsewhere": (("us-west-2", 1.224),)},  # the price there is the doubtful one
        {"date": date(2001, 1, 1), "purchase": "assumption"},  # an assumption does not age
    ],
)
def test_a_price_near_a_limit_has_no_doubt(changes):
    assert said(**changes) == ()


@pytest.mark.parametrize(("days", "doubtful"), [(0, False), (OLD_DAYS, False), (OLD_DAYS + 1, True)])
def test_age_is_counted_from_the_day_that_is_given(days, doubtful):
    found = said(date=TODAY - timedelta(days))
    assert bool(found) is doubtful
    assert not doubtful or found == ("the price of 2026-08-22 is 91 days old, more than 90",)


def test_several_doubts_are_all_told():
    assert len(said(usd_per_hour=999.0, date=date(2020, 1, 1), purchase="spot", on_demand_usd=1.0)) == 3


PRICES = st.floats(0.001, 500).filter(lambda usd: usd not in PLACEHOLDERS)


@given(usd=PRICES, factor=st.floats(0.01, 100))
def test_spot_is_doubted_by_order_alone(usd, factor):
    found = doubts(Quote(usd, "spot", TODAY, on_demand_usd=usd * factor), TODAY)
    assert any("above the on-demand" in doubt for doubt in found) is (usd > usd * factor)


@given(
    usd=st.floats(),
    other=st.floats(),
    days=st.integers(-1000, 1000),
    purchase=st.sampled_from(["on-demand", "spot", "reserved", "assumption"]),
)
def test_no_number_raises_and_every_doubt_is_one_line(usd, other, days, purchase):
    quote = Quote(usd, purchase, TODAY - timedelta(days), "r", other, (("h", other),), (("s", other),))
    assert all(doubt and "\n" not in doubt for doubt in doubts(quote, TODAY))


@given(before=PRICES, after=PRICES)
def test_a_jump_is_the_same_in_both_directions(before, after):
    is_jump = max(before, after) / min(before, after) > 2
    assert bool(jump(before, after)) == bool(jump(after, before)) == is_jump


def test_a_jump_is_reported_with_its_factor():
    assert jump(2.448, 9.99) == "from 2.448 to 9.99 USD/h, 4.1x"
    assert jump(9.99, 2.448) == "from 9.99 to 2.448 USD/h, 0.25x"
    assert jump(0, 1) == "from 0 to 1 USD/h" and jump(0, 0) == jump(1, 2) == ""


def test_the_answer_tells_a_doubt_once_with_all_its_machines():
    machines = [
        Machine("a", 1.0, "on-demand", price_flags=("it is old", "it is round")),
        Machine("b", 1.0, "stated assumption", price_flags=("it is old",)),
        Machine("c", None, price_flags=("no price, no doubt",)),
    ]
    assumed, both, only = price_notes(machines)
    assert assumed.kind == "assumed prices" and " b " in assumed.reason
    assert both.kind == only.kind == "doubtful prices"
    assert "a and b" in both.reason and "it is old" in both.reason and "it is round" in only.reason


def test_where_nothing_is_doubtful_nothing_is_reported():
    assert source_text("on-demand", ()) == "on-demand"
    assert source_text("on-demand", ("a", "b")) == "on-demand (doubtful: a; b)"


@pytest.mark.parametrize(
    ("usd", "text"), [(0.1, "0.1"), (21.957642, "21.957642"), (700.0, "700"), (0.0, "0")]
)
def test_amounts_are_never_rounded_to_cents(usd, text):
    assert usd_text(usd) == text
