import numpy as np
import pytest

from tasks.results.corrections import confidence_of_each, holm


def test_holm_compares_the_smallest_with_all_and_the_next_with_those_that_are_left():
    """0.01, 0.02 and 0.05 against 0.05 / 3, 0.05 / 2 and 0.05; the first that fails ends it."""
    assert holm([0.05, 0.01, 0.02]) == [True, True, True]
    assert holm([0.03, 0.01, 0.026]) == [False, True, False]
    assert holm([0.02, 0.02, 0.02]) == [False, False, False]


def test_an_unknown_chance_is_never_significant_and_makes_no_other_stricter():
    assert holm([None, 0.04]) == [False, True] and holm([None]) == [False] and holm([]) == []


def test_simultaneous_intervals_share_the_chance_of_a_false_interval():
    assert confidence_of_each(1) == confidence_of_each(0) == 0.95
    assert confidence_of_each(10) == pytest.approx(0.995) and confidence_of_each(4, 0.1) == pytest.approx(
        0.975
    )


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_any_of_fourteen_without_a_difference_is_significant_in_one_page_of_twenty(shared):
    rng = np.random.default_rng(5)
    alone, together = rng.random((4000, 14)), rng.random((4000, 1))
    pages = np.where(shared, together, alone)
    false = np.mean([any(holm(page)) for page in pages.tolist()])
    assert false <= 0.05 + 3 * (0.05 * 0.95 / 4000) ** 0.5
    assert shared or false > 0.035
