"""Predict a further member of a population: how slow a good machine can be."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tasks.results.values import Estimate
from workloads.harness.records.case import Case
from workloads.harness.records.intervals import (
    errors_of,
    pooled_variance,
    t_quantile,
    t_tail,
    variance,
    variances,
    widest,
)

FALSE_RETURNS = 0.01
"""Share of good machines, which differ from their siblings no more than these from each other."""
CONFIDENCE = 0.95
LEAST_SLOWNESS = math.log(1.05)
"""A smaller difference does not justify a return, however alike the siblings are: as for a straggler."""
FEWEST = 3
"""Siblings needed: the spread of two has one degree of freedom, which is not enough."""


class Measure(NamedTuple):
    """A time per step, or its drift over a soak, by which machines are compared.

    `threads`: of a process on a CPU; None on an accelerator.
    """

    case: Case
    threads: int | None = None
    is_drift: bool = False

    @property
    def name(self) -> str:
        return f"{self.case.id}, drift over its soak" if self.is_drift else self.case.id


Logs = Sequence[float]  # of the times of one measure on one machine, one per repeat
Values = Mapping[Measure, Logs]


@dataclass(frozen=True, slots=True)
class Slowness:
    """One measure of a machine among its siblings.

    Attributes:
        ratio: over the siblings' geometric mean.
        limit: above it the machine is slow, at its step of Holm's procedure.
        chance: that a good machine is as slow by this measure alone.
    """

    ratio: Estimate
    limit: float
    chance: float
    siblings: int
    is_slow: bool = False


def slowness_by_measure(own: Values, siblings: Sequence[Values]) -> dict[Measure, Slowness]:
    """Compare each measure with the siblings that have it.

    At most `FALSE_RETURNS` of good machines are called slow by any measure. Source: Hahn & Meeker 1991,
    Statistical Intervals, 4.7 (one further value of a normal population); Holm 1979 (several measures).
    """
    having = {measure: [other[measure] for other in siblings if measure in other] for measure in own}
    having = {measure: others for measure, others in having.items() if len(others) >= FEWEST}
    ratios = {measure: time_ratio(own[measure], others) for measure, others in having.items()}
    chances = {measure: chance_of(own[measure], others) for measure, others in having.items()}
    least = math.exp(LEAST_SLOWNESS)
    clear = {measure for measure, ratio in ratios.items() if ratio.value > least and (ratio.low or 0.0) > 1}
    order = sorted(having, key=lambda measure: chances[measure] if measure in clear else 1.0)
    made: dict[Measure, Slowness] = {}
    is_slow, level = True, FALSE_RETURNS
    for step, measure in enumerate(order):
        level = (
            FALSE_RETURNS / (len(order) - step) if is_slow else level
        )  # stop at the first that is not slow
        most = limit(having[measure], level)
        is_slow = is_slow and measure in clear and ratios[measure].value > most
        made[measure] = Slowness(ratios[measure], most, chances[measure], len(having[measure]), is_slow)
    return {measure: made[measure] for measure in having}


def chance_of(own: Logs, siblings: Sequence[Logs]) -> float:
    excess, reach = _excess(own, siblings), _reach(siblings)
    if not reach > 0:
        return float(excess <= 0)
    tail = t_tail(abs(excess) / reach, len(siblings) - 1)
    return tail if excess > 0 else 1 - tail


def limit(siblings: Sequence[Logs], level: float) -> float:
    """Return the ratio that a share `level` of members exceeds."""
    return math.exp(max(t_quantile(1 - level, len(siblings) - 1) * _reach(siblings), LEAST_SLOWNESS))


def time_ratio(own: Logs, siblings: Sequence[Logs]) -> Estimate:
    """Return the time over the typical sibling's, with its 95 % interval.

    Scatter is over all machines, because two repeats show little, or the machine's own if more. Without any
    second repeat there are no bounds.
    """
    excess, (within, freedom) = _excess(own, siblings), pooled_variance(variances((own, *siblings)))
    if not freedom:
        return Estimate(math.exp(excess))
    within = max(within, variance(own) if len(own) > 1 else 0.0)
    parts = [
        (variance(_means(siblings)) / len(siblings), len(siblings) - 1.0),
        (within / len(own), freedom),
    ]
    half = widest(errors_of(parts), 0.5 + CONFIDENCE / 2)
    return Estimate(math.exp(excess), math.exp(excess - half), math.exp(excess + half))


def sound_members(members: Mapping[str, Values]) -> list[str]:
    """Return the members that are not slow against the others.

    The slowest is removed first, while `FEWEST` are left, since it would hide the next one.
    """
    names = list(members)
    while len(names) > FEWEST:
        beyond = {name: _beyond(members[name], [members[n] for n in names if n != name]) for name in names}
        worst = max(names, key=lambda name: beyond[name])
        if beyond[worst] <= 0:
            break
        names.remove(worst)
    return names


def _beyond(own: Values, others: Sequence[Values]) -> float:
    level = FALSE_RETURNS / (len(others) + 1) / max(len(own), 1)
    worst = -math.inf
    for measure, logs in own.items():
        having = [other[measure] for other in others if measure in other]
        if len(having) >= FEWEST:
            worst = max(worst, _excess(logs, having) - math.log(limit(having, level)))
    return worst


def _excess(own: Logs, siblings: Sequence[Logs]) -> float:
    return statistics.fmean(own) - statistics.fmean(_means(siblings))


def _reach(siblings: Sequence[Logs]) -> float:
    return math.sqrt(variance(_means(siblings)) * (1 + 1 / len(siblings)))


def _means(siblings: Sequence[Logs]) -> list[float]:
    return [statistics.fmean(logs) for logs in siblings]
