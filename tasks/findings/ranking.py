"""Machines in order, with ties where the intervals don't tell them apart."""

from collections.abc import Iterable, Mapping, Sequence
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
        case: what they are ranked by; None for one pass through the suite's common cases.
        by: `time` (compute) or `cost`.
        places: place and machine; a place is 1 more than the number of machines that are shown to be better,
            so machines that the intervals don't tell apart share one.
        provisional: why a quiet machine may give another order, in words; empty where none may.
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
        """Return the order of three or more machines over the suite."""
        return tuple(places(self.rankings))


def places(rankings: Iterable[Ranking]) -> list[str]:
    """The order of three or more machines over the suite; of two the answer tells."""
    sentences = []
    for ranking in rankings:
        if ranking.case is None and len(ranking.places) > 2 and len({p for p, _ in ranking.places}) > 1:
            described = {
                index: [name for p, name in ranking.places if p == index] for index, _ in ranking.places
            }
            order = ", ".join(f"{index}. {' and '.join(names)}" for index, names in described.items())
            state = f"; provisional: {ranking.provisional}" if ranking.provisional else ""
            sentences.append(
                f"Over the suite, by {ranking.by}: {order}; "
                f"machines that share a rank are statistically indistinguishable{state}."
            )
    return sentences


def rankings(
    suite: CommonCases, cells: Sequence[Repeats], machines: Sequence[Machine]
) -> tuple[Ranking, ...]:
    """By time and by cost: the suite's common cases first, then each case that two machines have ok."""
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
    """A machine's place is 1 more than the number of machines that are shown to be better."""
    names = [name for name in suite.logs if name in weights] if suite.cases else []
    places = []
    for name in sorted(names, key=lambda name: (seconds(suite, name) * weights[name], name)):
        better = sum(_better(suite, weights, other, name) for other in names if other != name)
        places.append((1 + better, name))
    return Ranking(case, by, tuple(sorted(places, key=lambda place: place[0])), suite.provisional)


def _better(suite: CommonCases, weights: Mapping[str, float], one: str, other: str) -> bool:
    ratio = scaled(time_ratio(suite, other, one), weights[other] / weights[one])
    return decide(ratio, fewest_repeats(suite)).outcome is RatioVerdict.FASTER
