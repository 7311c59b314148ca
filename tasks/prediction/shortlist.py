"""The next machine to measure: the one whose measurement is worth most, until the answer stands."""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

WORTH = 0.05  # a better machine by less than this does not change the answer
LIKELY, SURE = 0.05, 0.01  # chances of a better machine: worth measuring first; below which the answer stands
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

    Machines with a chance of `LIKELY` to be better than the best measured one come first, by their expected gain, then
    those with a chance of `SURE`. If there is none, the answer stands.
    """
    chances = {
        name: chance_of_better(best, candidate)
        for name, candidate in candidates.items()
        if candidate.usd <= left_usd
    }
    likely = [name for name, chance in chances.items() if chance >= LIKELY]
    if likely:
        return max(likely, key=lambda name: expected_gain(best, candidates[name]))
    unlikely = [name for name, chance in chances.items() if chance >= SURE]
    return max(unlikely, key=lambda name: chances[name], default=None)
