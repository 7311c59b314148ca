"""Searches over simulated versions: `python -m tests.benchmarks.simulated.bisect [--write]`.

It prints the table of docs/bisect-and-gate.md, and with `--write` puts it there: how often a search among nine versions
without any change confirms one all the same, and how often it finds the version that is 5 % slower, by the effect of a
round on all of its processes.
"""

import argparse
import math
from collections.abc import Iterator

import numpy as np

from tasks.regressions.bisect import (
    FirstBadVersion,
    NextMeasurement,
    NextStep,
    Round,
    VersionSearch,
    next_step,
)
from tasks.regressions.change import Sample
from tests.docs import tables

VERSIONS, PROCESSES, NOISE = 9, 15, 0.01
FIRST_BAD = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    heading = f"{given.searches} searches a row:"
    tables.show(heading, table(given.searches), "bisect-and-gate.md", "bisect", given.write)


def table(searches: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        "| round effect | confirmed without a change | 5 % slower: found and confirmed | another one confirmed | rounds |"
    )
    yield "| --- | --- | --- | --- | --- |"
    for effect in (0.0, 0.005, 0.01, 0.02):
        rng = np.random.default_rng(20261123)
        quiet = [searched(rng, effect, 1.0)[0] for _ in range(searches)]
        ends = [searched(rng, effect, 1.05) for _ in range(searches)]
        found = sum(confirmed(end) and end.first_bad == FIRST_BAD for end, _ in ends) / searches
        wrong = sum(confirmed(end) and end.first_bad != FIRST_BAD for end, _ in ends) / searches
        rounds = sum(count for _, count in ends) / searches
        yield (
            f"| {100 * effect:g} % | {sum(map(confirmed, quiet)) / searches:.3f} | {found:.2f} | {wrong:.3f} "
            f"| {rounds:.1f} |"
        )


def searched(rng: np.random.Generator, effect: float, factor: float) -> tuple[NextStep, int]:
    """The end of a search, and how many rounds it took."""
    search = VersionSearch(tuple(f"v{place}" for place in range(VERSIONS)))
    while isinstance(step := next_step(search), NextMeasurement):
        level = math.log(factor) * (step.version >= FIRST_BAD) + rng.normal(0, effect)
        sample = Sample(tuple(np.exp(rng.normal(level, NOISE, PROCESSES))))
        search = VersionSearch(
            search.versions, (*search.rounds, Round(step.version, sample, check=step.check))
        )
    return step, len(search.rounds)


def confirmed(end: NextStep) -> bool:
    return isinstance(end, FirstBadVersion) and not end.doubt


if __name__ == "__main__":
    main()
