import random

import pytest

from workloads.harness.script.turns import OptimizerTurns, iteration_ends, turns_of


def numbers(order):
    """Return an order of letters as numbers by first occurrence."""
    first = list(dict.fromkeys(order))
    return [first.index(letter) for letter in order]


WGAN = ("c" * 20 + "g") * 3 + ("c" * 5 + "g") * 10


@pytest.mark.parametrize(
    ("order", "iterations"),
    [
        ("a" * 20, range(20)),
        ("ab" * 10, range(1, 20, 2)),  # a GAN, or one optimizer for matrices and one for the rest
        ("aaab" * 5, range(3, 20, 4)),
        ("qqaarr" * 4, range(5, 24, 6)),  # delayed updates of an actor
        ("".join(map(chr, range(500, 560))) * 3, range(59, 180, 60)),  # one for each layer
        (WGAN, [place for place, letter in enumerate(WGAN) if letter == "g"]),
        ("c" * 100 + "g" + "cg" * 4, [100, *range(102, 109, 2)]),
        ("ccgcgcccgccg", [2, 4, 8, 11]),  # a critic that steps until it is good enough
        ("a" * 10 + "b" * 40, range(50)),  # two phases of a training
        ("ab" * 20 + "c" * 10, [*range(1, 40, 2), *range(40, 50)]),
        ("ab" * 10 + "a", range(1, 20, 2)),  # the last iteration is not over
    ],
)
def test_an_iteration_ends_with_one_optimizer(order, iterations):
    order = numbers(order)
    turns = turns_of(order)
    assert iteration_ends(order, turns) == list(iterations)
    assert turns[-1].is_settled
    assert followed(order)[0] == list(iterations)


@pytest.mark.parametrize("order", ["ab", "aaab", "aaabaaab", "ccgccg", "ab" * 10 + "c"])
def test_an_order_that_has_not_repeated_itself_is_not_settled(order):
    assert not turns_of(numbers(order))[-1].is_settled


def test_an_order_by_chance_is_never_settled():
    draw = random.Random(1)
    for _ in range(50):
        order = [draw.choice((0, 0, 1, 2)) for _ in range(100)]
        assert not turns_of(order)[-1].is_settled


def followed(order):
    """Follow an order, recounting on request; return the ends and the recounts."""
    turns, ends, anew = OptimizerTurns(), [], 0
    for place, optimizer in enumerate(order):
        ended, changed = turns.stepped(optimizer)
        if changed:
            ends, anew = [end for end in iteration_ends(turns.order, turns.turns) if end < place], anew + 1
        ends += [place] * ended
    return ends, anew


def test_a_new_order_is_counted_anew_once():
    assert [followed(numbers(order))[1] for order in ("a" * 99, "ab" * 50, "aaab" * 50, WGAN)] == [0, 1, 1, 1]


def test_an_optimizer_that_comes_late_ends_iterations_of_its_own():
    turns = OptimizerTurns()
    assert all(turns.stepped("a") == (True, False) for _ in range(20_000)) and not turns.has_late
    assert turns.stepped("b") == (True, False) and turns.has_late
    assert turns.stepped("a") == (True, False)
