"""Machines in order, with ties where the intervals don't tell them apart."""

from collections.abc import Mapping, Sequence

from tasks.findings.totals import Suite, fewest_repeats, seconds, time_ratio
from tasks.results.finding_types import Ranking
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.speedup import decide, scaled
from tasks.results.values import Outcome
from workloads.harness.records.case import Case


def rankings(suite: Suite, cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[Ranking, ...]:
    """By time and by cost: the suite's common cases first, then each case that two machines have ok."""
    prices = {machine.name: machine.usd_per_hour for machine in machines if machine.usd_per_hour}
    of_case: dict[Case, list[Repeats]] = {}
    for cell in cells:
        of_case.setdefault(cell.cell.case, []).append(cell)
    parts = [(None, suite), *((case, Suite.of(same)) for case, same in of_case.items())]
    return tuple(
        ranking
        for case, part in parts
        for ranking in (
            _rank(case, "time", part, dict.fromkeys(part.logs, 1.0)),
            _rank(case, "cost", part, prices),
        )
        if part.cases and len(ranking.places) > 1
    )


def _rank(case: Case | None, by: str, suite: Suite, weights: Mapping[str, float]) -> Ranking:
    """A machine's place is 1 more than the number of machines that are shown to be better."""
    names = [name for name in suite.logs if name in weights] if suite.cases else []
    places = []
    for name in sorted(names, key=lambda name: (seconds(suite, name) * weights[name], name)):
        better = sum(_better(suite, weights, other, name) for other in names if other != name)
        places.append((1 + better, name))
    return Ranking(case, by, tuple(sorted(places, key=lambda place: place[0])))


def _better(suite: Suite, weights: Mapping[str, float], one: str, other: str) -> bool:
    ratio = scaled(time_ratio(suite, other, one), weights[other] / weights[one])
    return decide(ratio, fewest_repeats(suite)).outcome is Outcome.FASTER
