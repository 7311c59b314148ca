"""Corrections for multiple comparisons."""

from collections.abc import Sequence
from itertools import takewhile

FALSE = 0.05  # probability of any false verdict among all comparisons


def confidence_of_each(count: int, false: float = FALSE) -> float:
    """Return the confidence of each of `count` intervals, any of which is false with a chance of `false`.

    Also for dependent intervals and one chosen among them. Source: Bonferroni's inequality; O. J. Dunn,
    Multiple comparisons among means, 1961.
    """
    return 1 - false / max(count, 1)


def holm(chances: Sequence[float | None]) -> list[bool]:
    """Return which p values are significant; unknown ones are not.

    The probability that any is false is at most 5 %. Source: Holm 1979, A simple sequentially rejective
    multiple test procedure.
    """
    known = sorted((chance, place) for place, chance in enumerate(chances) if chance is not None)
    holding = takewhile(lambda i: known[i][0] <= FALSE / (len(known) - i), range(len(known)))
    places = {known[i][1] for i in holding}
    return [place in places for place in range(len(chances))]
