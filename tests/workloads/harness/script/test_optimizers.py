"""Which steps of optimizers make an iteration."""

import pytest

from workloads.harness.script.measurement import OptimizerTurns, period


class First:
    pass


class Second:
    pass


def ends(order):
    """Places of the steps that end an iteration; letters name optimizers."""
    optimizers = {letter: First() if letter == "a" else Second() for letter in set(order)}
    turns = OptimizerTurns()
    return [place for place, letter in enumerate(order) if turns.stepped(optimizers[letter])[0]], turns


@pytest.mark.parametrize(
    ("order", "iterations"),
    [
        ("a" * 20, list(range(20))),
        ("ab" * 10, [0, *range(1, 20, 2)]),  # nothing shows after the first step that another one comes
        ("aaab" * 5, [0, 1, 2, *range(3, 20, 4)]),
        ("a" * 40 + "b" * 10, list(range(50))),  # another phase of the training
    ],
)
def test_an_iteration_is_a_period_of_the_order(order, iterations):
    found, turns = ends(order)
    assert found == iterations
    assert list(turns.names) == (["First", "Second"] if "b" in order else ["First"])


def test_a_new_length_is_told_so_that_measuring_begins_anew():
    a, b, turns = First(), Second(), OptimizerTurns()
    assert turns.stepped(a) == (True, False)
    assert turns.stepped(b) == (True, True)
    assert [turns.stepped(x) for x in (a, b)] == [(False, False), (True, False)]


def test_an_order_without_a_period_counts_every_step():
    assert period([0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0]) == 1
