"""How often a run names the fastest of some machines that were measured in one session each."""

import math
from functools import partial

import numpy as np

from tasks.findings.ranking import compared, ordered, ratio_of
from tasks.findings.totals import CommonCases
from tasks.results.sessions import SESSION_EFFECT, Sessions, effect_of
from tasks.results.values import RatioVerdict
from tests.benchmarks.simulated import earlier
from tests.benchmarks.simulated.part import Part, remembered
from tests.tasks.examples.records import machine
from workloads.harness.records.case import Case

NOISE = 0.01  # from repeat to repeat
CASES = tuple(Case.of("matmul", {"n": n}) for n in range(100, 1500, 100))
REPEATS, EARLIER = 3, 6
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
    (40, 0.0, 0.0, 0.0),
    (40, 0.01, 0.0, 0.0),
    (40, 0.01, 0.0, 0.001),
)


def one_session() -> Part:
    counted = (
        "the share of runs that name a fastest machine, and a wrong one, from one session of each, 14 cases, "
        "3 repeats, by a session's effects on a machine and on a cell: with 1 % assumed; with 6 earlier runs"
    )
    return Part(counted, {_name(*world): partial(_shares, *world) for world in WORLDS})


def _name(machines: int, whole: float, cell: float, step: float) -> str:
    what = f"{machines} machines, {100 * step:g} % apart" if step else f"{machines} equal machines"
    return f"{what}, effects {100 * whole:g} % and {100 * cell:g} %"


def _shares(machines: int, whole: float, cell: float, step: float, runs: int) -> tuple[str, str]:
    with remembered():
        shares = np.mean([_named(seed, machines, whole, cell, step) for seed in range(runs)], axis=0)
    before, assumed, earlier = (f"{named:.3f}, {wrong:.3f}" for named, wrong in shares)
    return before, f"{assumed}; {earlier}"


def _named(seed: int, machines: int, whole: float, cell: float, step: float) -> list[tuple[bool, bool]]:
    """Return whether a machine is named and wrongly: by cells alone, an assumed effect, a known one."""
    rng, names = np.random.default_rng((20261127, seed)), [f"m{place:02}" for place in range(machines)]
    levels = math.log1p(step) * np.arange(machines)
    times = [level + _session(rng, whole, cell) for level in levels]
    known = {
        name: effect_of([_by_case(_session(rng, whole, cell)) for _ in range(EARLIER)], SESSION_EFFECT)
        for name in names
    }
    all_machines = [machine(name) for name in names]
    logs = {name: each.tolist() for name, each in zip(names, times, strict=True)}
    suites = (
        CommonCases(CASES, logs, sessions=way)
        for way in (Sessions.of(all_machines), Sessions.of(all_machines, known))
    )
    found = [_best_before(logs), *map(_best, suites)]
    return [(bool(best), bool(best) and (not step or best != names[0])) for best in found]


def _session(rng: np.random.Generator, whole: float, cell: float) -> np.ndarray:
    """Return the log seconds of a machine's repeats by case, in one session."""
    size = len(CASES), REPEATS
    return rng.normal(0, whole) + rng.normal(0, cell, (size[0], 1)) + rng.normal(0, NOISE, size)


def _by_case(times: np.ndarray) -> dict[str, list[float]]:
    return {case.id: logs for case, logs in zip(CASES, times.tolist(), strict=True)}


def _best_before(logs: dict[str, list[list[float]]]) -> str:
    best, *others = sorted(logs, key=lambda name: np.mean(logs[name]))
    ratios = (earlier.mean_of_cells(logs[other], logs[best]) for other in others)
    return best if all((ratio.low or 0.0) > 1 for ratio in ratios) else ""


def _best(suite: CommonCases) -> str:
    weights = dict.fromkeys(suite.logs, 1.0)
    best, *others = ordered(suite, weights)
    alone = (ratio_of(suite, other, best) for other in others)
    if any(ratio.outcome is not RatioVerdict.FASTER for ratio in alone):
        return ""  # a correction decides nothing that was undecided
    ratios = compared(suite, weights)
    return best if all(ratios[other, best].outcome is RatioVerdict.FASTER for other in others) else ""
