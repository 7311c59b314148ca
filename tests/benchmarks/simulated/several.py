"""Intervals of ratios of machines with several sessions: `python -m tests.benchmarks.simulated.several [--runs N]`.

Two equal machines, 4 cases, 1 % between repeats, 2 repeats in each session. One session assumes an effect of
1 %.
"""

import argparse
import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tasks.findings.totals import CommonCases, time_ratio
from tasks.results.sessions import SESSION_EFFECT, Sessions, effect_of
from tasks.results.values import Estimate
from tests.benchmarks.simulated import earlier
from tests.benchmarks.simulated.part import Part
from tests.tasks.examples.records import machine
from workloads.harness.records.case import Case

NOISE, OF_EACH, EARLIER = 0.01, 2, 6
CASES = tuple(Case.of("matmul", {"n": n}) for n in range(100, 500, 100))
MACHINES = (machine("a"), machine("b"))
COUNTS = (1, 2, 3, 5)
EFFECTS = (0.0, 0.005, 0.01, 0.02, 0.03)
OF_PART = (0.0, 0.01, 0.02)  # effects


def main(runs: int = 0) -> None:
    if not runs:
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument("--runs", type=int, default=1000)
        runs = parser.parse_args().runs
    heads = [f"{count} session{'s' * (count > 1)}" for count in COUNTS]
    print(f"| sessions of each machine: held, half | {' | '.join(heads)} |")
    print("| --- " * (1 + len(COUNTS)) + "|")
    for is_shown in (False, True):
        for effect in EFFECTS:
            known = _known(is_shown)
            cells = [coverage(runs, count, effect, is_shown) for count in COUNTS]
            texts = " | ".join(f"{held:.3f}, {100 * half:.1f} %" for held, half in cells)
            print(f"| effect of a session {100 * effect:g} %, {known} | {texts} |", flush=True)


def part() -> Part:
    counted = (
        "the share of intervals of a ratio of totals that hold the truth, and half of their median width; before: as "
        "many repeats in one session, whose effect did not count"
    )
    worlds = {
        f"{count} sessions, effect of each {100 * effect:g} %, {_known(is_shown)}": partial(
            _cells, count, effect, is_shown
        )
        for is_shown in (False, True)
        for effect in OF_PART
        for count in COUNTS[1:]
    }
    return Part(counted, worlds)


def _known(is_shown: bool) -> str:
    return f"shown by {EARLIER} earlier runs" if is_shown else f"{100 * SESSION_EFFECT:g} % assumed"


def _cells(count: int, effect: float, is_shown: bool, runs: int) -> tuple[str, str]:
    def before(rng: np.random.Generator) -> Estimate:
        return earlier.mean_of_cells(*suite_of(rng, 1, effect, count * OF_EACH).logs.values())

    found = _coverage(before, runs), coverage(runs, count, effect, is_shown)
    return tuple(f"{held:.3f}, {100 * half:.1f} %" for held, half in found)


def coverage(runs: int, count: int, effect: float, is_shown: bool = False) -> tuple[float, float]:
    """Return coverage and median half-width over `count` sessions."""
    return _coverage(lambda rng: time_ratio(suite_of(rng, count, effect, OF_EACH, is_shown), "a", "b"), runs)


def _coverage(ratio: Callable[[np.random.Generator], Estimate], runs: int) -> tuple[float, float]:
    held, halves = 0, []
    for number in range(runs):
        estimate = ratio(np.random.default_rng((20261127, number)))
        low, high = estimate.low or 0.0, estimate.high or math.inf
        held += low <= 1 <= high
        halves.append(math.log(high / low) / 2)
    return held / runs, float(np.median(halves))


def suite_of(
    rng: np.random.Generator, count: int, effect: float, of_each: int, is_shown: bool = False
) -> CommonCases:
    """Return two equal machines of `count` sessions with `of_each` repeats of a case."""
    numbers = [1 + place % count for place in range(count * of_each)]
    logs = {name: _logs(rng, numbers, effect).tolist() for name in "ab"}
    shown = {name: _shown(rng, effect) for name in "ab"} if is_shown else {}
    known = Sessions.of(MACHINES, {name: each for name, each in shown.items() if each})
    several = {name: [numbers] * len(CASES) for name in "ab"} if count > 1 else {}
    return CommonCases(CASES, logs, session_numbers=several, sessions=known)


def _shown(rng: np.random.Generator, effect: float):
    """Return the effect that earlier runs of a machine show, or None."""
    runs = [_logs(rng, [1] * OF_EACH, effect) for _ in range(EARLIER)]
    by_case = [{case.id: of for case, of in zip(CASES, run.tolist(), strict=True)} for run in runs]
    return effect_of(by_case, SESSION_EFFECT)


def _logs(rng: np.random.Generator, numbers: list[int], effect: float) -> np.ndarray:
    """Return log seconds by case and repeat, whose sessions have these numbers."""
    levels = rng.normal(0, effect, max(numbers))[np.array(numbers) - 1]
    return levels + rng.normal(0, NOISE, (len(CASES), len(numbers)))


if __name__ == "__main__":
    main()
