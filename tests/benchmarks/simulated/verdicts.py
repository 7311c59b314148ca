"""The run gate over runs with slower cells, and simultaneous verdicts."""

import math
from functools import partial

import numpy as np

from tasks.findings.ranking import compared, ordered
from tasks.findings.totals import CommonCases, time_ratio
from tasks.regressions.change import GateLimits, Sample, changes_between
from tasks.results.corrections import confidence_of_each
from tasks.results.speedup import corrected, speedup
from tasks.results.values import RatioVerdict
from tests.benchmarks.simulated import earlier
from tests.benchmarks.simulated.part import Part, remembered
from tests.tasks.examples.records import IMAGES, MATMUL

NOISE = 0.01  # from repeat to repeat
LIMITS = GateLimits()
REPEATS = 5
EFFECTS = (0.0, 0.005, 0.01, 0.02)
HALVES = ((7, 14), (4, 8), (3, 6))
FACTORS = (1.05, 1.1, 1.2)


def gate() -> Part:
    worlds = {
        f"14 cells without a change, effect of a run {100 * effect:g} %": (14, 0, 1.0, effect)
        for effect in EFFECTS
    }
    worlds |= {f"3 cells without a change, effect {100 * e:g} %": (3, 0, 1.0, e) for e in EFFECTS[2:]}
    worlds |= {
        f"{slow} of {cells} cells {100 * (factor - 1):.0f} % slower, no effect": (cells, slow, factor, 0.0)
        for slow, cells in HALVES
        for factor in FACTORS
    }
    worlds["7 of 14 cells 20 % slower, effect 1 %"] = (14, 7, 1.2, 0.01)
    counted = "the share of runs with exit code 1, with 0, and of slower cells shown, by 5 repeats"
    return Part(counted, {name: partial(gated, *world) for name, world in worlds.items()})


def gated(cells: int, slow: int, factor: float, effect: float, runs: int) -> tuple[str, str]:
    """Return the shares of exit code 1 and 0, and of slower cells shown, before and after."""
    rng, counts = np.random.default_rng(20261127), np.zeros((2, 3))
    for _ in range(runs):
        levels = rng.normal(0, effect, (2, cells))
        levels[0, :slow] += math.log(factor)
        times = np.exp(levels[..., None] + rng.normal(0, NOISE, (2, cells, REPEATS)))
        sides = [(Sample(tuple(now)), Sample(tuple(before))) for now, before in zip(*times, strict=True)]
        for place, (code, slower) in enumerate(codes(sides, 1 - 0.1 / cells)):
            counts[place] += code == 1, code == 0, sum(slower[:slow]) / max(slow, 1)
    return tuple(", ".join(f"{share:.3f}" for share in side) for side in counts / runs)


def codes(sides: list[tuple[Sample, Sample]], confidence: float) -> list[tuple[int, list[bool]]]:
    """Return exit code and slower cells by the earlier and by today's rule."""
    changes = changes_between(sides, confidence, LIMITS)
    ways = [change.direction(LIMITS.least) for change in changes]
    is_open = [
        not way and not change.excludes_slowdown(LIMITS.excluded)
        for way, change in zip(ways, changes, strict=True)
    ]
    slower = [way > 0 for way in ways]
    today = 1 if any(slower) else 3 if any(is_open) else 0
    return [earlier.gate_exit(sides, confidence, LIMITS.least), (today, slower)]


def together() -> Part:
    """Return the part of verdicts on one page, and of the order of many machines."""
    worlds = {}
    for repeats in (3, 5):
        for factor in (1.0, 1.05, 1.1):
            what = "any differs" if factor == 1 else f"share shown, all {100 * (factor - 1):.0f} % apart"
            worlds[f"14 cells of two machines, {repeats} repeats: {what}"] = partial(_cells, repeats, factor)
    for machines in (3, 10, 40):
        worlds[f"{machines} equal machines, 3 repeats: more than one place"] = partial(_order, machines, 0.0)
        name = f"{machines} equal machines, 3 repeats: the fastest one's interval holds the truth"
        worlds[name] = partial(_fastest, machines)
    name = "10 machines, each 10 % slower than the next: share of neighbours apart"
    worlds[name] = partial(_order, 10, 0.1)
    return Part(
        "a share of pages",
        {world: partial(_mean, of_one_page) for world, of_one_page in worlds.items()},
    )


def _mean(of_one_page, runs: int) -> tuple[str, str]:
    """Return means over pages, of single and of simultaneous verdicts."""
    chances = (np.random.default_rng((20261127, number)) for number in range(runs))
    with remembered():
        return tuple(f"{share:.3f}" for share in np.mean([of_one_page(chance) for chance in chances], axis=0))


def _cells(repeats: int, factor: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return whether any cell of a page differs, or the share that does if all differ; single and simultaneous."""
    times = np.exp(rng.normal(0, NOISE, (14, 2, repeats)))
    ratios = [speedup((factor * base).tolist(), side.tolist()) for base, side in times]
    shown = [np.array([_shown(ratio) for ratio in each]) for each in (ratios, corrected(ratios))]
    return tuple(float(each.any() if factor == 1 else each.mean()) for each in shown)


def _shown(ratio) -> bool:
    return ratio.outcome is not RatioVerdict.UNDECIDED


def _order(machines: int, step: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return whether any pair of equal machines is ordered, or the share of neighbours; single and
    simultaneous.
    """
    suite = _suite(machines, step, rng)
    together = {
        pair: _shown(ratio) for pair, ratio in compared(suite, dict.fromkeys(suite.logs, 1.0)).items()
    }
    before = {pair: earlier.mean_of_cells(*(suite.logs[name] for name in pair)) for pair in together}
    alone = {pair: not (ratio.low or 0.0) <= 1 <= (ratio.high or math.inf) for pair, ratio in before.items()}
    if not step:
        return float(any(alone.values())), float(any(together.values()))
    neighbours = [pair for pair in together if abs(int(pair[0][1:]) - int(pair[1][1:])) == 1]
    return tuple(float(np.mean([each[pair] for pair in neighbours])) for each in (alone, together))


def _fastest(machines: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return whether the speedup of the fastest of equal machines over another has 1 in its interval.

    Single, and as one of those over that machine.
    """
    suite = _suite(machines, 0.0, rng)
    given, *others = suite.logs
    best = next(name for name in ordered(suite, dict.fromkeys(suite.logs, 1.0)) if name in others)
    alone = earlier.mean_of_cells(suite.logs[given], suite.logs[best])
    chosen = time_ratio(suite, given, best, confidence_of_each(len(others)))
    return tuple(float((each.low or 0.0) <= 1 <= (each.high or math.inf)) for each in (alone, chosen))


def _suite(machines: int, step: float, rng: np.random.Generator) -> CommonCases:
    """Return machines with two cases of three repeats, each slower by `step` than the one before."""
    logs = step * np.arange(machines)[:, None, None] + rng.normal(0, NOISE, (machines, 2, 3))
    return CommonCases((MATMUL, IMAGES), {f"m{place:02}": each.tolist() for place, each in enumerate(logs)})
