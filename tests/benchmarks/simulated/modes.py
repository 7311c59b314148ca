"""Machines whose processes are in one of two states: how often intervals of a ratio hold the truth."""

import math
from functools import partial

import numpy as np

from tasks.results.sessions import Sessions, repeats_of
from tasks.results.speedup import speedup
from tests.benchmarks.simulated.part import Part

NOISE = 0.01
CASE = "case"
EARLIER = 6  # runs of both machines in the results store


def part() -> Part:
    worlds = {
        f"{100 * apart:.0f} % apart, the slower in {100 * slow:.0f} % of processes, {repeats} repeats": partial(
            _cells, apart, slow, repeats
        )
        for apart in (0.04, 0.08)
        for slow in (0.5, 0.8)
        for repeats in (3, 5)
    }
    counted = (
        "the share of intervals of a ratio that hold the truth, and half of their median width, with six earlier runs; "
        "before: without"
    )
    return Part(counted, worlds)


def _cells(apart: float, slow: float, repeats: int, runs: int) -> tuple[str, str]:
    return tuple(f"{held:.3f}, {100 * half:.1f} %" for held, half in coverage(runs, apart, slow, repeats))


def coverage(runs: int, apart: float, slow: float, repeats: int) -> list[tuple[float, float]]:
    """Return coverage and median half-width of intervals, without and with earlier runs."""
    rng, truth = np.random.default_rng(20261127), math.exp(-apart * slow)
    sides: list[list[tuple[bool, float]]] = [[], []]
    for _ in range(runs):
        plain, with_history = (_ratio(rng, apart, slow, repeats, known) for known in (False, True))
        for side, (low, high) in zip(sides, (plain, with_history), strict=True):
            side.append((low <= truth <= high, math.log(high / low) / 2))
    return [
        (float(np.mean([held for held, _ in side])), float(np.median([half for _, half in side])))
        for side in sides
    ]


def _ratio(
    rng: np.random.Generator, apart: float, slow: float, repeats: int, known: bool
) -> tuple[float, float]:
    steady, bistable = _times(rng, 0.0, 0.0, repeats), _times(rng, apart, slow, repeats)
    added = []
    if known:
        history = {
            name: repeats_of([{CASE: _times(rng, *state, repeats).tolist()} for _ in range(EARLIER)])
            for name, state in (("steady", (0.0, 0.0)), ("bistable", (apart, slow)))
        }
        sessions = Sessions(repeats=history)
        for name, logs in (("steady", steady), ("bistable", bistable)):
            added += sessions.of_repeats(name, CASE, np.exp(logs).tolist())
    ratio = speedup(np.exp(steady).tolist(), np.exp(bistable).tolist(), (), added)
    assert ratio and ratio.estimate.low and ratio.estimate.high
    return ratio.estimate.low, ratio.estimate.high


def _times(rng: np.random.Generator, apart: float, slow: float, repeats: int) -> np.ndarray:
    return apart * (rng.random(repeats) < slow) + rng.normal(0, NOISE, repeats)
