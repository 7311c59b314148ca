"""The next machine to measure: the one whose measurement is worth most, until the answer stands."""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

WORTH = 0.05  # a better machine by less than this does not change the answer
SURE = 0.05  # the chance of a better machine below which the answer stands
NORMAL = NormalDist()


class Candidate(NamedTuple):
    """A machine that is not measured: the log of its time or cost, with its standard deviation.

    `usd` is the cost of measuring it.
    """

    log_value: float
    sd: float
    usd: float


def expected_gain(best: float, candidate: Candidate) -> float:
    """Return the expected gain on the log over the best measured machine, beyond `WORTH`.

    Source: Jones, Schonlau and Welch 1998, Efficient Global Optimization, J. Global Optimization 13, equation 15.
    """
    ahead = best - WORTH - candidate.log_value
    if candidate.sd <= 0:
        return max(ahead, 0.0)
    score = ahead / candidate.sd
    return ahead * NORMAL.cdf(score) + candidate.sd * NORMAL.pdf(score)


def chance_of_better(best: float, candidate: Candidate) -> float:
    """Return the chance that a machine is better than the best measured one by more than `WORTH`."""
    ahead = best - WORTH - candidate.log_value
    return NORMAL.cdf(ahead / candidate.sd) if candidate.sd > 0 else float(ahead > 0)


def next_to_measure(
    best: float, candidates: Mapping[str, Candidate], left_usd: float = math.inf
) -> str | None:
    """Return the machine to measure next, within the money that is left; None if the answer stands.

    The answer stands if no machine has a chance of `SURE` or more to be better than the best measured one.
    """
    open_ones = {
        name: candidate
        for name, candidate in candidates.items()
        if candidate.usd <= left_usd and chance_of_better(best, candidate) >= SURE
    }
    return max(open_ones, key=lambda name: expected_gain(best, open_ones[name]), default=None)
