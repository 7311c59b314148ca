"""Searches over simulated versions: `python -m tests.benchmarks.simulated.bisect [--write]`.

It prints the table of docs/bisect-and-gate.md (`--write` puts it there): how often a search among nine equal
versions confirms a change, and how often it finds a version that is 5 % slower, on boxes whose speed varies.
Versions are measured one after another, or two in turns by process.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

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

VERSIONS, PROCESSES, NOISE, SLOT_S = 9, 15, 0.01, 8.0
FIRST_BAD = 5
Chance = np.random.Generator
Box = Callable[[int], NDArray[np.float64]]
"""Returns the log of a box's slowness in its next so many slots, which are one measurement."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    heading = f"{given.searches} searches a row:"
    tables.show(heading, table(given.searches), "bisect-and-gate.md", "bisect", given.write)


def table(searches: int) -> Iterator[str]:
    yield "| the box | one after another | processes | in turns | processes |"
    yield "| --- | --- | --- | --- | --- |"
    for name, box in BOXES.items():
        one, turns = (" | ".join(counted(box, in_turns, searches)) for in_turns in (False, True))
        yield f"| {name} | {one} | {turns} |"


def counted(box: Callable[[Chance], Box], in_turns: bool, searches: int) -> tuple[str, str]:
    """Return the shares of searches on a box, and the processes of a search with a change."""
    rng = np.random.default_rng(20261123)
    quiet = [searched(rng, box(rng), 1.0, in_turns)[0] for _ in range(searches)]
    ends = [searched(rng, box(rng), 1.05, in_turns) for _ in range(searches)]
    found = sum(confirmed(end) and end.first_bad == FIRST_BAD for end, _ in ends) / searches
    wrong = sum(confirmed(end) and end.first_bad != FIRST_BAD for end, _ in ends) / searches
    rounds = sum(count for _, count in ends) / searches
    return (
        f"{sum(map(confirmed, quiet)) / searches:.3f}, {found:.2f}, {wrong:.3f}",
        f"{rounds * PROCESSES:.0f}",
    )


def searched(rng: Chance, box: Box, factor: float, in_turns: bool = False) -> tuple[NextStep, int]:
    search = VersionSearch(tuple(f"v{place}" for place in range(VERSIONS)), in_turns=in_turns)
    while isinstance(step := next_step(search), NextMeasurement):
        versions = [step.version] if step.partner is None else [step.partner, step.version]
        slots = box(PROCESSES * len(versions)).reshape(PROCESSES, len(versions))
        slots = rng.permuted(slots, axis=1)  # which is first is drawn for each pair
        slower = math.log(factor) * np.array([version >= FIRST_BAD for version in versions])
        times = np.exp(slower + slots + rng.normal(0, NOISE, slots.shape)).T.tolist()
        samples = [Sample(tuple(side)) for side in times]
        if in_turns:
            over = tuple(own / other for other, own in zip(*times, strict=True))
            samples[1] = replace(samples[1], controlled=over, controls=tuple(times[0]))
        made = (Round(v, sample, check=step.check) for v, sample in zip(versions, samples, strict=True))
        search = replace(search, rounds=(*search.rounds, *made))
    return step, len(search.rounds)


def confirmed(end: NextStep) -> bool:
    return isinstance(end, FirstBadVersion) and not end.doubt


def by_measurement(effect: float, rng: Chance) -> Box:
    """Return a box whose state changes between measurements, with this standard deviation of logs."""
    return lambda slots: np.full(slots, rng.normal(0, effect))


def drifting(rho: float, spread: float, rng: Chance) -> Box:
    """Return a box whose speed drifts as an AR(1) process over its slots."""
    state = rng.normal(0, spread)

    def box(slots: int) -> NDArray[np.float64]:
        nonlocal state
        logs = []
        for step in rng.normal(0, spread * math.sqrt(1 - rho**2), slots):
            state = rho * state + step
            logs.append(state)
        return np.array(logs)

    return box


def neighbour(rng: Chance) -> Box:
    """Return a box that a neighbour slows by 25 % for 3 minutes of each 15."""
    now_s = rng.uniform(0, 900)

    def box(slots: int) -> NDArray[np.float64]:
        nonlocal now_s
        times_s = now_s + np.arange(slots) * SLOT_S
        now_s = times_s[-1] + SLOT_S
        return np.where(times_s % 900 < 180, math.log(1.25), 0.0)

    return box


BOXES: dict[str, Callable[[Chance], Box]] = {
    "quiet": partial(by_measurement, 0.0),
    "another state each measurement, 0.5 %": partial(by_measurement, 0.005),
    "the same, 1 %": partial(by_measurement, 0.01),
    "the same, 2 %": partial(by_measurement, 0.02),
    "AR(1) .9, 3 %": partial(drifting, 0.9, 0.03),
    "AR(1) .98, 1 %": partial(drifting, 0.98, 0.01),
    "AR(1) .98, 3 %": partial(drifting, 0.98, 0.03),
    "a neighbour, 25 % for 3 of 15 minutes": neighbour,
}


if __name__ == "__main__":
    main()
