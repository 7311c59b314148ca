"""Choose the next machine to measure."""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType
from typing import NamedTuple

from tasks.results.billing import usd
from tasks.results.forecast import Forecast
from tasks.results.format import format_count
from tasks.results.repeats import Repeats

WORTH = 0.05  # a smaller gain does not change the answer
LIKELY, SURE = 0.05, 0.01  # chances of a better machine: to measure it first; below which the answer stands
MEASURING_S = 900.0  # of a rented machine: its start, and a few cases
MOST_RENTED = 7  # machines that a shortlist rents for both goals: docs/predict.md
FASTEST, CHEAPEST = GOALS = "fastest", "cheapest"
NORMAL = NormalDist()


class Candidate(NamedTuple):
    """An unmeasured machine's log time or cost, with its standard deviation.

    `usd` is the cost of measuring it.
    """

    log_value: float
    sd: float
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class BestSoFar:
    """The best measured machine, and those that can still be better.

    `goal` is `fastest` or `cheapest`; `log_value` is the best one's.
    """

    goal: str
    best: str
    log_value: float
    candidates: Mapping[str, Candidate]


def measured_s(cells: Iterable[Repeats]) -> dict[str, dict[str, float]]:
    """Return seconds of a step by machine and case."""
    times: dict[str, dict[str, float]] = {}
    for cell in cells:
        if cell.compute_s:
            times.setdefault(cell.cell.hardware, {})[cell.cell.case.id] = statistics.fmean(cell.compute_s)
    return times


def standings(
    measured: Mapping[str, Mapping[str, float]],
    usd_per_hour: Mapping[str, float],
    forecasts: Iterable[Forecast],
    measuring_usd: Mapping[str, float] = MappingProxyType({}),
) -> list[BestSoFar]:
    """Return each goal's standing, by the mean log over the cases of all measured machines.

    Args:
        usd_per_hour: of measured machines; the cheapest is not sought if one costs nothing.
        forecasts: of unmeasured machines; one that lacks a case is left out.
        measuring_usd: by default for `MEASURING_S`.
    """
    cases = set.intersection(*({*times} for times in measured.values())) if measured else set()
    predicted: dict[str, dict[str, Forecast]] = {}
    for forecast in forecasts:
        if forecast.hardware not in measured and forecast.case in cases:
            predicted.setdefault(forecast.hardware, {})[forecast.case] = forecast
    complete = {name: [*own.values()] for name, own in predicted.items() if len(own) == len(cases)}
    logs = {
        name: statistics.fmean(math.log(times[c]) for c in cases) for name, times in measured.items() if cases
    }
    found = []
    for goal in GOALS if logs else ():
        prices = dict(usd_per_hour) if goal == CHEAPEST else dict.fromkeys((*measured, *complete), 1.0)
        if goal == CHEAPEST:
            prices |= {name: own[0].usd_per_hour for name, own in complete.items()}
        if not all(prices.get(name) for name in measured):
            continue
        values = {name: log_s + math.log(prices[name]) for name, log_s in logs.items()}
        best = min(values, key=lambda name: values[name])
        candidates = {
            name: Candidate(
                statistics.fmean(math.log(f.value_s) for f in own) + math.log(prices[name]),
                statistics.fmean(f.log_sd for f in own),
                measuring_usd.get(name, usd(MEASURING_S, own[0].usd_per_hour)),
            )
            for name, own in complete.items()
            if prices[name]
        }
        found.append(BestSoFar(goal, best, values[best], candidates))
    return found


def expected_gain(best: float, candidate: Candidate) -> float:
    """Return the expected log gain beyond `WORTH`.

    Source: Jones, Schonlau and Welch 1998, Efficient Global Optimization, J. Global Optimization 13, equation
    15.
    """
    ahead = best - WORTH - candidate.log_value
    if candidate.sd <= 0:
        return max(ahead, 0.0)
    score = ahead / candidate.sd
    return ahead * NORMAL.cdf(score) + candidate.sd * NORMAL.pdf(score)


def chance_of_better(best: float, candidate: Candidate) -> float:
    """Return the chance to be better by more than `WORTH`."""
    ahead = best - WORTH - candidate.log_value
    return NORMAL.cdf(ahead / candidate.sd) if candidate.sd > 0 else float(ahead > 0)


def next_to_measure(
    best: float, candidates: Mapping[str, Candidate], left_usd: float = math.inf
) -> str | None:
    """Return an affordable machine; None if the answer stands.

    First those with a chance of `LIKELY`, by expected gain, then those with a chance of `SURE`.
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


def next_for_all(found: Sequence[BestSoFar], reached: Collection[str]) -> tuple[BestSoFar, str] | None:
    """Return the goal, and the reached machine that is worth most."""
    choices = []
    for standing in found:
        candidates = {name: c for name, c in standing.candidates.items() if name in reached}
        if name := next_to_measure(standing.log_value, candidates):
            choices.append((standing, name))
    return max(choices, key=lambda c: expected_gain(c[0].log_value, c[0].candidates[c[1]]), default=None)


def sentence(standing: BestSoFar) -> str:
    """Return whether the answer holds, or which machine is next."""
    if name := next_to_measure(standing.log_value, standing.candidates):
        return next_text(standing, name)
    others = format_count(len(standing.candidates), "predicted machine")
    return f"The {standing.goal} is {standing.best}: of {others}, none is likely to be better by {WORTH:.0%} or more."


def next_text(standing: BestSoFar, name: str) -> str:
    candidate = standing.candidates[name]
    chance = chance_of_better(standing.log_value, candidate)
    return (
        f"To find the {standing.goal}, measure {name} next, for about {candidate.usd:.2g} USD: with a chance of "
        f"{chance:.0%} it is better than {standing.best} by {WORTH:.0%} or more."
    )
