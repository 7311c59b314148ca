"""Corrections for several comparisons that stand together."""

from collections.abc import Sequence
from itertools import takewhile

FALSE = 0.05  # probability of any false verdict among comparisons that stand together


def confidence_of_each(count: int, false: float = FALSE) -> float:
    """Return the confidence of each of `count` intervals, of which any is false with a chance of at most `false`.

    That holds however the intervals depend on each other, and for one that was chosen among them.
    Source: Bonferroni's inequality; O. J. Dunn, Multiple comparisons among means, Journal of the American Statistical
    Association 56, 1961.
    """
    return 1 - false / max(count, 1)


def holm(chances: Sequence[float | None]) -> list[bool]:
    """Return which p values stay significant after correction for multiple comparisons; an unknown one does not.

    The probability that any of them is false is at most 5 %. Without the correction each alone is false with that
    probability, so of 14 cases without a difference one seems to differ in every second run.
    Source: Holm 1979, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6.
    """
    known = sorted((chance, place) for place, chance in enumerate(chances) if chance is not None)
    holding = takewhile(lambda i: known[i][0] <= FALSE / (len(known) - i), range(len(known)))
    places = {known[i][1] for i in holding}
    return [place in places for place in range(len(chances))]
