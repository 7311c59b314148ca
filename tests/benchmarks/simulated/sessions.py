"""How often a run names the fastest of some machines that were measured in one session each."""

import math

import numpy as np

from tasks.findings.ranking import compared, ordered
from tasks.findings.totals import CommonCases
from tasks.results.sessions import SESSION_EFFECT, WITHIN, Sessions, effect_of
from tasks.results.values import RatioVerdict
from tests.tasks.examples.records import machine
from workloads.harness.records.case import Case

NOISE = 0.01  # from repeat to repeat
CASES = tuple(Case.of("matmul", {"n": n}) for n in range(100, 1500, 100))
REPEATS, EARLIER = 3, 6
MANY = 0.05  # share of the runs of a table that simulate forty machines, whose pairs take long
# machines; the effect of a session on a machine and on each cell; by how much each is slower than the one before
WORLDS = (
    (2, 0.0, 0.0, 0.0),
    (2, 0.01, 0.0, 0.0),
    (2, 0.0, 0.01, 0.0),
    (2, 0.0, 0.02, 0.0),
    (2, 0.02, 0.0, 0.0),
    (2, 0.01, 0.0, 0.01),
    (2, 0.01, 0.0, 0.03),
    (2, 0.01, 0.0, 0.05),
    (2, 0.02, 0.0, 0.05),
    (40, 0.01, 0.0, 0.0),
)


def one_session(runs: int) -> None:
    """Print the shares of runs that name a machine, and a wrong one: within the session, assumed, and shown earlier."""
    print("| one session of each machine: named, wrongly | before | 1 % assumed | by 6 earlier runs |")
    print("| --- | --- | --- | --- |")
    for machines, whole, cell, step in WORLDS:
        count = runs if machines < 10 else max(int(MANY * runs), 10)
        shares = np.mean([_named(seed, machines, whole, cell, step) for seed in range(count)], axis=0)
        what = f"{machines} machines, {100 * step:g} % apart" if step else f"{machines} equal machines"
        sides = " | ".join(f"{named:.3f}, {wrong:.3f}" for named, wrong in shares)
        effect = f"effect on a machine {100 * whole:g} %, on a cell {100 * cell:g} %"
        print(f"| {what}, {effect} | {sides} |", flush=True)


def _named(seed: int, machines: int, whole: float, cell: float, step: float) -> list[tuple[bool, bool]]:
    """Return whether a machine is named and whether wrongly: without a session's effect, assumed, and known."""
    rng, names = np.random.default_rng((20261127, seed)), [f"m{place:02}" for place in range(machines)]
    levels = math.log1p(step) * np.arange(machines)
    times = [level + _session(rng, whole, cell) for level in levels]
    known = {
        name: effect_of([_by_case(_session(rng, whole, cell)) for _ in range(EARLIER)], SESSION_EFFECT)
        for name in names
    }
    all_machines = [machine(name) for name in names]
    ways = (WITHIN, Sessions.of(all_machines), Sessions.of(all_machines, known))
    logs = {name: each.tolist() for name, each in zip(names, times, strict=True)}
    return [_best(CommonCases(CASES, logs, sessions=way), names[0], step) for way in ways]


def _session(rng: np.random.Generator, whole: float, cell: float) -> np.ndarray:
    """Return the log seconds of a machine's repeats by case, in one session."""
    size = len(CASES), REPEATS
    return rng.normal(0, whole) + rng.normal(0, cell, (size[0], 1)) + rng.normal(0, NOISE, size)


def _by_case(times: np.ndarray) -> dict[str, list[float]]:
    return {case.id: logs for case, logs in zip(CASES, times.tolist(), strict=True)}


def _best(suite: CommonCases, truly: str, step: float) -> tuple[bool, bool]:
    weights = dict.fromkeys(suite.logs, 1.0)
    ratios, (best, *others) = compared(suite, weights), ordered(suite, weights)
    is_named = all(ratios[other, best].outcome is RatioVerdict.FASTER for other in others)
    return is_named, is_named and (not step or best != truly)
