"""Two equal entries of a box that drifts or has a neighbour: `python -m tests.benchmarks.simulated.turns [--write]`.

The earlier rule measured one entry after the other and counted cells as independent; entries now take turns
by repeat. A slot is 8 s; 14 cells, 3 repeats, 1 % between repeats.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tasks.findings.totals import CommonCases, time_ratio, total_seconds
from tasks.results.speedup import corrected, scaled, speedup
from tasks.results.turns import Span
from tasks.results.values import RatioVerdict
from tests.benchmarks.simulated import earlier
from tests.benchmarks.simulated.part import Part
from tests.docs import tables
from tests.tasks.examples.records import IMAGES

CELLS, REPEATS, NOISE, SLOT_S = 14, 3, 0.01, 8.0
SLOTS = 2 * CELLS * REPEATS
FloatArray = NDArray[np.float64]
Chance = np.random.Generator
Slots = NDArray[np.int64]  # of each repeat of each cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    tables.show(f"{given.runs} runs of each box:", table(given.runs), "comparing.md", "turns", given.write)


def table(runs: int) -> Iterator[str]:
    yield (
        "| the box | before: ratio of totals holds the truth | total does | any cell differs "
        "| now: ratio | total | any cell differs |"
    )
    yield "| --- " * 7 + "|"
    for name, box in BOXES.items():
        before, after = (shares(box, order, runs) for order in (one_after_the_other, in_turns))
        yield f"| {name} | {' | '.join(f'{share:.3f}' for share in (*before, *after))} |"


def part() -> Part:
    counted = (
        "the share of runs in which the interval of a ratio of totals and that of a total hold the truth, and of "
        "those in which any cell differs"
    )
    return Part(counted, {name: partial(_cells, box) for name, box in BOXES.items()})


def _cells(box: Callable[[Chance], FloatArray], runs: int) -> tuple[str, str]:
    sides = (shares(box, order, runs) for order in (one_after_the_other, in_turns))
    return tuple(", ".join(f"{share:.3f}" for share in side) for side in sides)


def autoregressive(rho: float, spread: float) -> Callable[[Chance], FloatArray]:
    """Return a box whose speed drifts as an AR(1) process over its slots, with this standard deviation of logs."""

    def box(chance: Chance) -> FloatArray:
        steps = chance.normal(0, spread * math.sqrt(1 - rho**2), SLOTS)
        logs = [chance.normal(0, spread)]
        for step in steps[1:]:
            logs.append(rho * logs[-1] + step)
        return np.array(logs)

    return box


def neighbour(chance: Chance) -> FloatArray:
    """Return a box that a neighbour slows by 25 % for 3 minutes of each 15."""
    times_s = np.arange(SLOTS) * SLOT_S + chance.uniform(0, 900)
    return np.where(times_s % 900 < 180, math.log(1.25), 0.0)


BOXES: dict[str, Callable[[Chance], FloatArray]] = {
    "quiet": lambda chance: np.zeros(SLOTS),
    "AR(1) .9, 1 %": autoregressive(0.9, 0.01),
    "AR(1) .9, 3 %": autoregressive(0.9, 0.03),
    "AR(1) .98, 1 %": autoregressive(0.98, 0.01),
    "AR(1) .98, 3 %": autoregressive(0.98, 0.03),
    "a neighbour, 25 % for 3 of 15 minutes": neighbour,
}


def one_after_the_other(chance: Chance) -> tuple[Slots, Slots]:
    """Return the slots of two entries in turn, each in a shuffled order."""
    first, second = (chance.permutation(SLOTS // 2).reshape(CELLS, REPEATS) for _ in range(2))
    return first, second + SLOTS // 2


def in_turns(chance: Chance) -> tuple[Slots, Slots]:
    """Return the slots of two entries that take turns by repeat, in rounds, as lanes do."""
    places = np.stack([chance.permutation(CELLS) + CELLS * number for number in range(REPEATS)], axis=1)
    later = chance.integers(0, 2, places.shape)
    return 2 * places + later, 2 * places + 1 - later


def shares(
    box: Callable[[Chance], FloatArray], order: Callable[[Chance], tuple[Slots, Slots]], runs: int
) -> list[float]:
    """Return the shares of runs whose ratio and total hold the truth, and in which any cell differs."""
    counts = np.zeros(3)
    for number in range(runs):
        chance = np.random.default_rng((20261127, number))
        speed, slots = box(chance), order(chance)
        sides = [speed[places] + chance.normal(0, NOISE, places.shape) for places in slots]
        counts += _verdicts(sides, slots, is_new=order is in_turns)
    shares: list[float] = (counts / runs).tolist()
    return shares


def _verdicts(sides: list[FloatArray], slots: tuple[Slots, Slots], is_new: bool) -> tuple[bool, bool, bool]:
    logs = {name: side.tolist() for name, side in zip("ab", sides, strict=True)}
    spans = {name: _spans(of_entry) for name, of_entry in zip("ab", slots, strict=True)}
    suite = CommonCases((IMAGES,) * CELLS, logs, spans=spans)
    if is_new:
        estimates = time_ratio(suite, "a", "b"), scaled(total_seconds(suite, "a"), 1 / CELLS)
    else:
        estimates = earlier.mean_of_cells(logs["a"], logs["b"]), earlier.mean_of_cells(logs["a"])
    cells = corrected([speedup(np.exp(a).tolist(), np.exp(b).tolist()) for a, b in zip(*sides, strict=True)])
    differs = any(cell is not None and cell.outcome is not RatioVerdict.UNDECIDED for cell in cells)
    ratio, total = (each.low is not None and each.low <= 1 <= (each.high or 0.0) for each in estimates)
    return ratio, total, differs


def _spans(slots: Slots) -> list[list[Span | None]]:
    return [
        [Span("box", number, slot * SLOT_S, (slot + 1) * SLOT_S) for number, slot in enumerate(of_cell)]
        for of_cell in slots.tolist()
    ]


if __name__ == "__main__":
    main()
