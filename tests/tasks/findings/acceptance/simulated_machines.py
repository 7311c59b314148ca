"""Machines of known speed among siblings: returned good ones and kept slow ones.

`python -m tests.tasks.findings.acceptance.simulated_machines` prints the tables of docs/acceptance.md.
"""

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tasks.findings.acceptance.advice import Advice, advise
from tasks.findings.acceptance.population import Kind, Member
from tasks.findings.acceptance.prediction import Measure
from tests.tasks.examples.records import machine
from workloads.harness.records.case import Case

CASES = tuple(Case.of(name, {"n": 1}) for name in ("gemm", "memory_bandwidth", "transformer_train"))
MEASURES = (*map(Measure, CASES), Measure(CASES[0], is_drift=True))
KIND = Kind("a card", "a stack")
Draw = Callable[[random.Random], float]


def normal(chance: random.Random) -> float:
    return chance.gauss(0, 1)


def long_tailed(chance: random.Random) -> float:
    """Draw of a gamma distribution of shape 2, slow cards far out, with mean 0 and deviation 1."""
    return (chance.gammavariate(2, 1) - 2) / math.sqrt(2)


@dataclass(frozen=True)
class Population:
    """Cards of one kind, by the logs of their times.

    Attributes:
        spread: standard deviation between cards.
        within: that between repeats on one card.
        shared: the part of the variance between cards that all measures share.
    """

    spread: float
    within: float = 0.005
    shared: float = 0.5
    repeats: int = 2
    draw: Draw = normal

    def card(
        self, chance: random.Random, slower: Mapping[Measure, float] | None = None
    ) -> dict[Measure, list[float]]:
        """Draw a card and its repeats, `slower` in some measures (0.1 is 10 %)."""
        common = self.draw(chance) * math.sqrt(self.shared)
        levels = {
            measure: self.spread * (common + self.draw(chance) * math.sqrt(1 - self.shared))
            + math.log1p((slower or {}).get(measure, 0.0))
            for measure in MEASURES
        }
        return {
            measure: [level + chance.gauss(0, self.within) for _ in range(self.repeats)]
            for measure, level in levels.items()
        }


def simulate(
    population: Population,
    siblings: int,
    slower: Mapping[Measure, float] | None = None,
    bad: int = 0,
    runs: int = 1000,
    seed: int = 1,
    is_typical: bool = False,
) -> Counter[Advice]:
    """Count the advice on cards, of whose siblings `bad` are 20 % slow in all measures.

    A card that `is_typical` differs from the mean of its kind only in being slower.
    """
    chance = random.Random(f"{seed} {population.spread} {siblings} {slower} {bad}")
    own_population = replace(population, spread=0.0) if is_typical else population
    advices: Counter[Advice] = Counter()
    for _ in range(runs):
        others = [
            Member(
                "earlier",
                f"{index}",
                f"{index}",
                KIND,
                population.card(chance, ALL_20 if index < bad else None),
            )
            for index in range(siblings)
        ]
        own = Member("now", "card", "card", KIND, own_population.card(chance, slower))
        advices[advise(machine("card"), [], own, others).advice] += 1
    return advices


ALL_10 = dict.fromkeys(MEASURES, 0.1)
ALL_20 = dict.fromkeys(MEASURES, 0.2)
ONE_20 = {MEASURES[1]: 0.2}
ROWS = (
    ("1 %", Population(0.01)),
    ("2 %", Population(0.02)),
    ("4 %", Population(0.04)),
    ("4 %, long slow tail", Population(0.04, draw=long_tailed)),
)
COLUMNS: tuple[tuple[str, Mapping[Measure, float] | None, int], ...] = (
    ("good", None, 0),
    ("10 % slow", ALL_10, 0),
    ("20 % slow", ALL_20, 0),
    ("20 % slow in one", ONE_20, 0),
    ("20 % slow, and one sibling too", ALL_20, 1),
    ("good, one sibling 20 % slow", None, 1),
)


def main(runs: int = 2000, *rows: int) -> None:
    """Print by kind of card and number of siblings how many of 100 are returned / kept.

    Good cards have four times as many `runs`, because few are returned. `rows` are those of `ROWS`.
    """
    print("| spread between cards | siblings |", " | ".join(name for name, _, _ in COLUMNS), "|")
    print("| --- " * (len(COLUMNS) + 2) + "|")
    for name, population in [ROWS[row] for row in rows] or ROWS:
        for siblings in (3, 5, 10, 20):
            cells = []
            for _, slower, bad in COLUMNS:
                times = runs if slower else 4 * runs
                found = simulate(population, siblings, slower, bad, times)
                cells.append(f"{share(found, Advice.RETURN)}/{share(found, Advice.KEEP)}")
            print(f"| {name} | {siblings} | {' | '.join(cells)} |", flush=True)


def share(found: Counter[Advice], advice: Advice) -> str:
    percent = 100 * found[advice] / found.total()
    return f"{percent:.1f}" if 0 < percent < 10 else f"{percent:.0f}"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
