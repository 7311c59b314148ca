"""Machines in order, with ties if the intervals do not distinguish them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.findings.totals import CommonCases, fewest_repeats, seconds, time_ratio
from tasks.results.finding import Finding, Results
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.speedup import decide, scaled
from tasks.results.values import RatioVerdict
from workloads.harness.records.case import Case


@dataclass(frozen=True, slots=True)
class Ranking:
    """Machines in order, the best first.

    Attributes:
        case: None for one pass through the suite's common cases.
        by: `time` (compute) or `cost`.
        places: rank and machine; a rank is 1 more than the number of machines shown to be better.
        provisional: why an idle machine can give another order; empty if it cannot.
    """

    case: Case | None
    by: str
    places: tuple[tuple[int, str], ...]
    provisional: str = ""


@dataclass(frozen=True, slots=True)
class Rankings(Finding):
    """The machines in order, by time and by cost, over the suite and for each case."""

    name = "rankings"
    title = "Rankings"
    order = 30
    rankings: tuple[Ranking, ...]

    @classmethod
    def find(cls, results: Results) -> "Rankings":
        """Rank the machines of the suite and of each case."""
        return cls(rankings(CommonCases.of(results.suite_cells), results.cells, results.machines))

    def observations(self) -> tuple[str, ...]:
        """Return the order of three or more machines over the suite; the answer compares two."""
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
    """Rank by time and by cost: the suite's common cases first, then each case with valid results of two machines."""
    prices = {machine.name: machine.usd_per_hour for machine in machines if machine.usd_per_hour}
    of_case: dict[Case, list[Repeats]] = {}
    for cell in cells:
        of_case.setdefault(cell.cell.case, []).append(cell)
    parts = [(None, suite), *((case, CommonCases.of(same)) for case, same in of_case.items())]
    return tuple(
        ranking
        for case, part in parts
        for ranking in (
            _rank(case, "time", part, dict.fromkeys(part.logs, 1.0)),
            _rank(case, "cost", part, prices),
        )
        if part.cases and len(ranking.places) > 1
    )


def _rank(case: Case | None, by: str, suite: CommonCases, weights: Mapping[str, float]) -> Ranking:
    names = [name for name in suite.logs if name in weights] if suite.cases else []
    places = []
    for name in sorted(names, key=lambda name: (seconds(suite, name) * weights[name], name)):
        others = [other for other in names if other != name]
        ratios = [scaled(time_ratio(suite, name, o), weights[name] / weights[o]) for o in others]
        verdicts = [decide(ratio, fewest_repeats(suite)).outcome for ratio in ratios]
        places.append((1 + verdicts.count(RatioVerdict.FASTER), name))
    return Ranking(case, by, tuple(sorted(places, key=lambda place: place[0])), suite.provisional)
