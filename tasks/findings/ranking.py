"""Machines in order, tied if intervals do not distinguish them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tasks.findings.totals import CommonCases, fewest_repeats, seconds, time_ratio, time_ratio_p
from tasks.results.finding import Finding, Results
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.speedup import corrected, decide, scaled
from tasks.results.values import Ratio, RatioVerdict
from workloads.harness.records.case import Case


@dataclass(frozen=True, slots=True)
class Ranking:
    """Machines in order, the best first.

    Attributes:
        case: None for the suite.
        places: rank and machine; a rank is 1 more than the machines shown to be better.
        provisional: why an idle machine can give another order; else empty.
    """

    case: Case | None
    by: str
    places: tuple[tuple[int, str], ...]
    provisional: str = ""


@dataclass(frozen=True, slots=True)
class Rankings(Finding):
    """The machines in order by time and by cost, over the suite and by case."""

    name = "rankings"
    title = "Rankings"
    order = 30
    rankings: tuple[Ranking, ...]

    @classmethod
    def find(cls, results: Results) -> "Rankings":
        suite = CommonCases.of(results.suite_cells, results.sessions)
        return cls(rankings(suite, results.cells, results.machines))

    def observations(self) -> tuple[str, ...]:
        """Return the order of three or more; the answer compares two."""
        sentences = []
        for ranking in self.rankings:
            machines: dict[int, list[str]] = {}
            for place, name in ranking.places:
                machines.setdefault(place, []).append(name)
            if ranking.case is None and len(ranking.places) > 2 and len(machines) > 1:
                order = ", ".join(f"{place}. {' and '.join(names)}" for place, names in machines.items())
                state = f"; provisional: {ranking.provisional}" if ranking.provisional else ""
                sentences.append(
                    f"Over the suite, by {ranking.by}: {order}; "
                    f"machines that share a rank are statistically indistinguishable{state}."
                )
        return tuple(sentences)


def rankings(
    suite: CommonCases, cells: Sequence[Repeats], machines: Sequence[Machine]
) -> tuple[Ranking, ...]:
    prices = {machine.name: machine.usd_per_hour for machine in machines if machine.usd_per_hour}
    of_case: dict[Case, list[Repeats]] = {}
    for cell in cells:
        of_case.setdefault(cell.cell.case, []).append(cell)
    alone = {case: CommonCases.of(same, suite.sessions) for case, same in of_case.items()}
    parts = [(None, suite), *alone.items()]
    return tuple(
        ranking
        for case, part in parts
        for ranking in (
            _rank(case, "time", part, dict.fromkeys(part.logs, 1.0)),
            _rank(case, "cost", part, prices),
        )
        if part.cases and len(ranking.places) > 1
    )


def ordered(suite: CommonCases, weights: Mapping[str, float]) -> list[str]:
    """Return machines that have a weight, the least weighted time first."""
    names = [name for name in suite.logs if name in weights] if suite.cases else []
    return sorted(names, key=lambda name: (seconds(suite, name) * weights[name], name))


def compared(suite: CommonCases, weights: Mapping[str, float]) -> dict[tuple[str, str], Ratio]:
    """Return the ratio of each (slower, faster) pair.

    Corrected for all pairs, since the best of many can be best by chance.
    """
    pairs = [(slower, faster) for faster, slower in combinations(ordered(suite, weights), 2)]
    ratios: list[Ratio | None] = []
    for over, under in pairs:
        ratios.append(ratio_of(suite, over, under, weights[over] / weights[under]))
    return {pair: ratio for pair, ratio in zip(pairs, corrected(ratios), strict=True) if ratio}


def ratio_of(suite: CommonCases, over: str, under: str, factor: float = 1.0) -> Ratio:
    """Return the ratio of total times, times `factor`."""
    estimate = scaled(time_ratio(suite, over, under), factor)
    ratio = decide(estimate, fewest_repeats(suite), suite.sessions_sd(over, under))
    return replace(ratio, chance=time_ratio_p(suite, over, under, factor))


def _rank(case: Case | None, by: str, suite: CommonCases, weights: Mapping[str, float]) -> Ranking:
    ratios = compared(suite, weights)
    slower = Counter(over for (over, _), ratio in ratios.items() if ratio.outcome is RatioVerdict.FASTER)
    places = [(1 + slower[name], name) for name in ordered(suite, weights)]
    return Ranking(case, by, tuple(sorted(places, key=lambda place: place[0])), suite.provisional)
