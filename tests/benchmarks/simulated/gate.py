"""The run gate over simulated runs: `python -m tests.benchmarks.simulated.gate [--runs N] [--write]`.

It prints the tables of docs/bisect-and-gate.md (`--write` puts them there). The first compares two equal
runs, by the effect of a run on each cell: how many fail, and how many pass with no cell undecided. The second
has runs with slower cells: how many fail, and how many slower cells are shown.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.regressions.change import GateLimits, Sample, changes_between
from tests.docs import tables

NOISE = 0.01  # from repeat to repeat
EFFECTS = (0.0, 0.005, 0.01, 0.02)
SIZES = ((3, 5), (7, 3), (7, 5), (14, 3), (14, 5), (45, 3), (45, 5))
SLOWER = ((1, 7), (1, 14), (3, 6), (4, 8), (4, 14), (7, 14), (9, 14))
FACTORS = (1.05, 1.1, 1.2)
LIMITS = GateLimits()
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Shares of comparisons that fail and that exit with 0; share of slower cells shown."""

    failed: float
    passed: float
    shown: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    heading = f"{given.runs} comparisons a cell:"
    for name, lines in (("gate", unchanged(given.runs)), ("slower", slower_cells(given.runs))):
        tables.show(heading, lines, "bisect-and-gate.md", name, given.write)


def unchanged(runs: int) -> Iterator[str]:
    effects = " | ".join(f"{100 * effect:g} %" for effect in EFFECTS)
    yield f"| cells, repeats | {effects} | 1 % on all cells alike |"
    yield "| --- " * (len(EFFECTS) + 2) + "|"
    for cells, repeats in SIZES:
        found = [compared(cells, repeats, effect, runs) for effect in EFFECTS]
        found.append(compared(cells, repeats, 0.01, runs, alike=True))
        shares = " | ".join(f"{each.failed:.3f}, {each.passed:.2f}" for each in found)
        yield f"| {cells}, {repeats} | {shares} |"


def slower_cells(runs: int) -> Iterator[str]:
    yield "| slower cells | " + " | ".join(f"by {100 * (factor - 1):.0f} %" for factor in FACTORS) + " |"
    yield "| --- " * (len(FACTORS) + 1) + "|"
    for slow, cells in SLOWER:
        found = [compared(cells, 5, 0.0, runs, slow, factor) for factor in FACTORS]
        shares = " | ".join(f"{each.failed:.2f}, {each.shown:.2f}" for each in found)
        yield f"| {slow} of {cells} | {shares} |"


def compared(
    cells: int,
    repeats: int,
    effect: float,
    runs: int,
    slow: int = 0,
    factor: float = 1.0,
    alike: bool = False,
    controls: bool = False,
) -> Shares:
    """Compare pairs of runs, in which the first `slow` cells are slower by `factor`.

    Controls have the noise of repeats, and the effect of a run on all cells.
    """
    rng, failed, passed, shown = np.random.default_rng(20261123), 0, 0, 0
    for _ in range(runs):
        levels = rng.normal(0, effect, (2, 1 if alike else cells)) * np.ones((2, cells))
        levels[0, :slow] += math.log(factor)
        times = np.exp(levels[..., None] + rng.normal(0, NOISE, (2, cells, repeats)))
        shared = levels[..., :1] if alike else np.zeros((2, 1))
        beside = np.exp(shared[..., None] + rng.normal(0, NOISE, (2, cells, repeats)))
        sides = [
            (_sample(now, beside[0, cell], controls), _sample(before, beside[1, cell], controls))
            for cell, (now, before) in enumerate(zip(*times, strict=True))
        ]
        changes = changes_between(sides, 1 - 0.1 / cells, LIMITS)
        slower = [change.direction(LIMITS.least) > 0 for change in changes]
        is_open = [
            not change.direction(LIMITS.least) and not change.excludes_slowdown(LIMITS.excluded)
            for change in changes
        ]
        failed, passed = failed + any(slower), passed + (not any(slower) and not any(is_open))
        shown += sum(slower[:slow])
    return Shares(failed / runs, passed / runs, shown / runs / max(slow, 1))


def _sample(seconds: FloatArray, controls_s: FloatArray, has_controls: bool) -> Sample:
    if not has_controls:
        return Sample(tuple(seconds))
    return Sample(tuple(seconds), tuple(seconds / controls_s), tuple(controls_s), "reference")


if __name__ == "__main__":
    main()
