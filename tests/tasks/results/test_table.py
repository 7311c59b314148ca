import pytest

from tasks.results.table import Quantity, cell_text
from tasks.results.values import Estimate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1_600_000.0, "1,600,000"),
        (1_234_567, "1,234,567"),
        (15, "15"),
        (2.345, "2.35"),
        (-3.0, "-3.00"),
        (Estimate(7.11, 7.0, 7.2), "7.11 (7.00–7.20)"),
        (None, "–"),
    ],
)
def test_a_count_has_no_unit_and_its_thousands_are_told_apart(value, text):
    assert cell_text(value, Quantity.COUNT) == text


def test_other_quantities_have_their_units():
    assert cell_text(12_300.0, Quantity.ENERGY) == "12,300 J"
    assert cell_text(2e-12, Quantity.ENERGY) == "2.00 pJ"
    assert cell_text(Estimate(0.01197, 0.01188, 0.01206), Quantity.ENERGY) == "11.97 mJ (11.88–12.06)"
    assert cell_text(Estimate(517.2, 513.2, 521.1), Quantity.POWER) == "517.2 W (513.2–521.1)"
    assert cell_text(0.5, Quantity.SHARE) == "50 %"
    assert cell_text(Estimate(2.0, 1.9, 2.1), Quantity.RATIO) == "2.00× (1.90–2.10)"
