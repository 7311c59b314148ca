"""Coverage of intervals, and false verdicts of tests: `python -m tests.benchmarks.simulated.intervals [--write]`.

It prints the tables of docs/statistics.md (`--write` puts them there). Intervals are of 95 %. A minute for
1,000 runs.
"""

import argparse
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.findings.totals import CommonCases, time_ratio
from tasks.regressions.baseline import of_several
from tasks.regressions.change import Change, robust_change, run_effect
from tasks.regressions.robust import pseudomedian, spread_of_pairs, two_modes, typical_variance
from tasks.results.corrections import confidence_of_each, holm
from tasks.results.sessions import effect_of
from tasks.results.sessions import of_mean as of_sessions
from tests.docs import tables
from tests.tasks.examples.records import IMAGES
from workloads.harness.engine.sampling.mean import batch_size, mean_bounds, variance_growth
from workloads.harness.engine.sampling.ramp import ramp
from workloads.harness.records.intervals import (
    correlation_time,
    errors_of,
    half_of_mean,
    inefficiency,
    log_mean_interval,
    mean_interval,
    median_interval,
    pooled_variance,
    ratio_interval,
    ratio_p,
)

STATISTICS = (
    half_of_mean,
    ratio_interval,
    errors_of,
    pooled_variance,
    median_interval,
    inefficiency,
    correlation_time,
    mean_interval,
    batch_size,
    variance_growth,
    ramp,
    confidence_of_each,
    holm,
    effect_of,
    of_sessions,
    time_ratio,
    run_effect,
    Change.excludes_slowdown,
    spread_of_pairs,
    pseudomedian,
    typical_variance,
    two_modes,
    of_several,
)
FloatArray = NDArray[np.float64]
Chance = np.random.Generator
CASES = 14
SLOW = 0.08  # share of slow repeats


def even(rng: Chance, shape: tuple[int, ...], side: int = 0) -> FloatArray:
    """1 % from repeat to repeat."""
    return rng.normal(0, 0.01, shape)


def unequal(rng: Chance, shape: tuple[int, ...], side: int = 0) -> FloatArray:
    """1 % on one side, 3 % on the other."""
    return rng.normal(0, 0.01 * 3**side, shape)


def slow(rng: Chance, shape: tuple[int, ...], side: int = 0) -> FloatArray:
    """1 %, and 8 % of repeats 5 to 80 % slow."""
    times = np.log(rng.uniform(1.05, 1.8, shape))
    return even(rng, shape) + np.where(rng.random(shape) < SLOW, times, 0.0)


def skewed(rng: Chance, shape: tuple[int, ...], side: int = 0) -> FloatArray:
    """An exponential distribution of 2 %."""
    return rng.exponential(0.02, shape)


def two_states(rng: Chance, shape: tuple[int, ...], side: int = 0) -> FloatArray:
    """0.5 %, and half of the processes 4 % slow."""
    return rng.normal(0, 0.005, shape) + 0.04 * (rng.random(shape) < 0.5)


class World(NamedTuple):
    """A noise of log seconds of a generator, a shape and a side; its mean."""

    name: str
    noise: Callable[..., FloatArray]
    mean: float = 0.0


WORLDS = (
    World("even, 1 %", even),
    World("1 % and 3 %", unequal),
    World("8 % of repeats 5 to 80 % slow", slow, SLOW * float(np.log(np.linspace(1.05, 1.8, 20001)).mean())),
    World("skewed, 2 %", skewed, 0.02),
    World("two states 4 % apart", two_states, 0.02),
)


def of_mean(repeats: int, rng: Chance, world: World) -> bool:
    found = log_mean_interval(np.exp(world.noise(rng, (repeats,))).tolist())
    assert found is not None
    return found.low <= math.exp(world.mean) <= found.high


def of_ratio(over: int, under: int, rng: Chance, world: World) -> bool:
    sides = (np.exp(world.noise(rng, (count,), side)) for side, count in enumerate((over, under)))
    found = ratio_interval(*(side.tolist() for side in sides))
    assert found is not None
    return found.low <= 1 <= found.high


def of_total(repeats: int, rng: Chance, world: World) -> bool:
    logs = {name: world.noise(rng, (CASES, repeats), side).tolist() for side, name in enumerate("ab")}
    found = time_ratio(CommonCases((IMAGES,) * CASES, logs), "a", "b")
    assert found.low is not None and found.high is not None
    return found.low <= 1 <= found.high


def of_robust_change(repeats: int, rng: Chance, world: World) -> bool:
    now, before = (world.noise(rng, (repeats,), side).tolist() for side in range(2))
    return robust_change(now, before, 0.975).direction() == 0


def of_holm(repeats: int, rng: Chance, world: World) -> bool:
    """Return whether no ratio of a page is significant."""
    sides = (np.exp(world.noise(rng, (CASES, repeats), side)).tolist() for side in range(2))
    return not any(holm([ratio_p(now, before) for now, before in zip(*sides, strict=True)]))


REPEATED = {
    "`log_mean_interval`: mean of 3 repeats": partial(of_mean, 3),
    "the same, 5": partial(of_mean, 5),
    "the same, 10": partial(of_mean, 10),
    "`ratio_interval`: Welch's t, 2 and 2 repeats": partial(of_ratio, 2, 2),
    "the same, 3 and 3": partial(of_ratio, 3, 3),
    "the same, 5 and 5": partial(of_ratio, 5, 5),
    "the same, 10 and 10": partial(of_ratio, 10, 10),
    "the same, 3 and 10": partial(of_ratio, 3, 10),
    f"`time_ratio`: totals of {CASES} cases, 3 repeats": partial(of_total, 3),
    "the same, 5 repeats": partial(of_total, 5),
    "`robust_change`: pseudomedians of 5 and 5 rounds": partial(of_robust_change, 5),
    "the same, 15 and 15": partial(of_robust_change, 15),
    f"`holm`: no false verdict among {CASES} ratios, 5 repeats": partial(of_holm, 5),
}


def correlated(kept: float, rng: Chance, count: int) -> FloatArray:
    """Return samples of which each keeps a share of the one before."""
    fresh = rng.normal(0, math.sqrt(1 - kept**2), count)
    values = [rng.normal()]
    for value in fresh[1:]:
        values.append(kept * values[-1] + value)
    return 1 + 0.02 * np.array(values)


def of_batches(values: FloatArray) -> bool | None:
    found = mean_bounds(values.tolist()).interval
    return None if found is None else found.low <= 1 <= found.high


def of_median(values: FloatArray) -> bool | None:
    samples = values.tolist()
    found = median_interval(samples, inefficiency=inefficiency(samples))
    return None if found is None else found.low <= 1 <= found.high


SAMPLED = {
    "`mean_bounds`: batch means of 300 samples": of_batches,
    "`median_interval` of 300 samples": of_median,
}
KEPT = (0.0, 0.5, 0.9, 0.97)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    tables.show("By their docstrings:", sources(), "statistics.md", "sources", given.write)
    tables.show(f"{given.runs} a cell:", table(given.runs), "statistics.md", "coverage", given.write)


def sources() -> Iterator[str]:
    """Yield the table of statistics: the source in each docstring, and its module."""
    yield "| statistic | source | in |"
    yield "| --- | --- | --- |"
    for statistic in STATISTICS:
        parts = [" ".join(part.split()) for part in (inspect.getdoc(statistic) or "").split("\n\n")]
        (source,) = re.findall(r"Source: (.*?\.)(?= Simulated in |$)", "\n".join(parts), re.MULTILINE)
        place = statistic.__module__.replace(".", "/")
        yield f"| `{statistic.__qualname__}` | {source} | `{place}.py` |"


def table(runs: int) -> Iterator[str]:
    yield f"| of repeats | {' | '.join(world.name for world in WORLDS)} |"
    yield "| --- " * (len(WORLDS) + 1) + "|"
    for name, held in REPEATED.items():
        yield _row(name, ((held(rng, world) for rng in chances(runs)) for world in WORLDS))
    yield ""
    yield f"| of samples with a memory | {' | '.join(f'AR(1) {kept:g}' for kept in KEPT)} |"
    yield "| --- " * (len(KEPT) + 1) + "|"
    for name, of_values in SAMPLED.items():
        yield _row(name, ((of_values(correlated(kept, rng, 300)) for rng in chances(runs)) for kept in KEPT))


def chances(runs: int) -> Iterator[Chance]:
    return (np.random.default_rng((20261127, number)) for number in range(runs))


def _row(name: str, shares: Iterable[Iterable[bool | None]]) -> str:
    """Return a statistic's line: of those with an interval, the share that holds the truth."""
    cells = []
    for of_world in shares:
        known = [held for held in of_world if held is not None]
        cells.append(f"{np.mean(known):.3f}" if known else "–")
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
