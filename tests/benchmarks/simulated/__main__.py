"""The rules of verdicts before and after their last change: `python -m tests.benchmarks.simulated [--runs N]`.

Each share is of N simulated runs, so its standard error is the root of share x (1 - share) / N. Two hours for 1,000.
"""

import argparse
import contextlib
import math

import numpy as np

from tasks.findings.ranking import compared
from tasks.findings.totals import CommonCases, fewest_repeats, time_ratio
from tasks.regressions.change import GateLimits, Sample, changes_between
from tasks.results.speedup import corrected, decide, speedup
from tasks.results.values import RatioVerdict
from tests.benchmarks.simulated import earlier, modes, nights, samples, turns
from tests.benchmarks.simulated.sessions import one_session
from tests.tasks.examples import night_noise
from tests.tasks.examples.records import IMAGES, MATMUL
from tests.tasks.examples.simulated_nights import QUIET, Plan, filed, named_within

NOISE = 0.01  # from repeat to repeat
LIMITS = GateLimits()
REPEATS = 5
EFFECTS = (0.0, 0.005, 0.01, 0.02)
HALVES = ((7, 14), (4, 8), (3, 6))
FACTORS = (1.05, 1.1, 1.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    for table in (half_of_the_cells, many_verdicts, one_session, young_controls, turns.main):
        table(runs)
        print()
    for lines in (
        samples.table(runs, []),
        samples.power_limit(runs),
        modes.table(runs),
        nights.table(runs, []),
    ):
        for line in lines:
            print(line, flush=True)
        print()


def half_of_the_cells(runs: int) -> None:
    """Print how often the run gate exits with 1 and with 0, and how many of the slower cells it shows."""
    print("| the run gate, 5 repeats | before: exit 1, exit 0, shown | after |")
    print("| --- | --- | --- |")
    for effect in EFFECTS:
        row(f"14 cells without a change, effect of a run {100 * effect:g} %", gated(14, 0, 1.0, effect, runs))
    for effect in EFFECTS[2:]:
        row(f"3 cells without a change, effect {100 * effect:g} %", gated(3, 0, 1.0, effect, runs))
    for slow, cells in HALVES:
        for factor in FACTORS:
            text = f"{slow} of {cells} cells {100 * (factor - 1):.0f} % slower, no effect"
            row(text, gated(cells, slow, factor, 0.0, runs))
    row("7 of 14 cells 20 % slower, effect 1 %", gated(14, 7, 1.2, 0.01, runs))


def row(text: str, sides: list[tuple[float, float, float]]) -> None:
    print(
        f"| {text} | {' | '.join(', '.join(f'{share:.3f}' for share in side) for side in sides)} |",
        flush=True,
    )


def gated(cells: int, slow: int, factor: float, effect: float, runs: int) -> list[tuple[float, float, float]]:
    """Return the shares of exit code 1 and 0, and of slower cells shown, before and after."""
    rng, counts = np.random.default_rng(20261127), np.zeros((2, 3))
    for _ in range(runs):
        levels = rng.normal(0, effect, (2, cells))
        levels[0, :slow] += math.log(factor)
        times = np.exp(levels[..., None] + rng.normal(0, NOISE, (2, cells, REPEATS)))
        sides = [(Sample(tuple(now)), Sample(tuple(before))) for now, before in zip(*times, strict=True)]
        for place, (code, slower) in enumerate(codes(sides, 1 - 0.1 / cells)):
            counts[place] += code == 1, code == 0, sum(slower[:slow]) / max(slow, 1)
    return [tuple(side) for side in (counts / runs).tolist()]


def codes(sides: list[tuple[Sample, Sample]], confidence: float) -> list[tuple[int, list[bool]]]:
    """Return exit code and slower cells by the earlier rule and by that of today."""
    changes = changes_between(sides, confidence, LIMITS)
    ways = [change.direction(LIMITS.least) for change in changes]
    is_open = [
        not way and not change.excludes_slowdown(LIMITS.excluded)
        for way, change in zip(ways, changes, strict=True)
    ]
    slower = [way > 0 for way in ways]
    today = 1 if any(slower) else 3 if any(is_open) else 0
    return [earlier.gate_exit(sides, confidence, LIMITS.least), (today, slower)]


def many_verdicts(runs: int) -> None:
    """Print how often equal machines seem to differ, and how often a real difference is shown."""
    print("| verdicts | before | after |")
    print("| --- | --- | --- |")
    for repeats in (3, 5):
        for factor in (1.0, 1.05, 1.1):
            alone, together = np.mean([_cells(rng, repeats, factor) for rng in seeds(runs)], axis=0)
            what = "any differs" if factor == 1 else f"share shown, all {100 * (factor - 1):.0f} % apart"
            print(
                f"| 14 cells of two machines, {repeats} repeats: {what} | {alone:.3f} | {together:.3f} |",
                flush=True,
            )
    for machines in (3, 10, 40):
        alone, together = np.mean([_order(rng, machines, 0.0) for rng in seeds(runs)], axis=0)
        print(
            f"| {machines} equal machines, 3 repeats: more than one place | {alone:.3f} | {together:.3f} |",
            flush=True,
        )
    alone, together = np.mean([_order(rng, 10, 0.1) for rng in seeds(runs)], axis=0)
    print(
        f"| 10 machines, each 10 % slower than the next: share of neighbours apart | {alone:.3f} | {together:.3f} |"
    )


def seeds(runs: int) -> list[np.random.Generator]:
    return [np.random.default_rng((20261127, number)) for number in range(runs)]


def _cells(rng: np.random.Generator, repeats: int, factor: float) -> tuple[float, float]:
    """Return whether any cell of a page differs, or the share of cells that do if all differ; alone and together."""
    times = np.exp(rng.normal(0, NOISE, (14, 2, repeats)))
    ratios = [speedup((factor * base).tolist(), side.tolist()) for base, side in times]
    shown = [np.array([_shown(ratio) for ratio in each]) for each in (ratios, corrected(ratios))]
    return tuple(float(each.any() if factor == 1 else each.mean()) for each in shown)


def _shown(ratio) -> bool:
    return ratio.outcome is not RatioVerdict.UNDECIDED


def _order(rng: np.random.Generator, machines: int, step: float) -> tuple[float, float]:
    """Return whether any pair of equal machines is ordered, or the share of neighbours that are; alone and together."""
    logs = step * np.arange(machines)[:, None, None] + rng.normal(0, NOISE, (machines, 2, 3))
    names = [f"m{place:02}" for place in range(machines)]
    suite = CommonCases(
        (MATMUL, IMAGES), {name: each.tolist() for name, each in zip(names, logs, strict=True)}
    )
    together = {pair: _shown(ratio) for pair, ratio in compared(suite, dict.fromkeys(names, 1.0)).items()}
    alone = {pair: _shown(decide(time_ratio(suite, *pair), fewest_repeats(suite))) for pair in together}
    if not step:
        return float(any(alone.values())), float(any(together.values()))
    neighbours = [pair for pair in together if abs(int(pair[0][1:]) - int(pair[1][1:])) == 1]
    return tuple(float(np.mean([each[pair] for pair in neighbours])) for each in (alone, together))


def young_controls(runs: int) -> None:
    """Print what a series of few nights with a control shows, and its false tickets."""
    print("| nights with a control | before | after |")
    print("| --- | --- | --- |")
    for night in (8, 10, 14, 20):
        plan = Plan(shift=math.log(1.08), shifted=night, nights=night + 1)
        text = f"moving box, {night} nights, then 8 % slower: named the same night"
        pair(text, lambda plan=plan: named_within(_made("moving_box", runs), plan, (1,))[0])
    for model in (
        "moving_box",
        "gauss",
        "night_state",
        "drifting_box",
        "two_hosts_controlled",
        "slow_boxes",
        "neighbour",
    ):
        text = f"{model}, nights 11 to 40: false tickets in 100 nights of a series"
        pair(text, lambda model=model: _false(model, runs))


def pair(text: str, share) -> None:
    with earlier.young_series():
        before = share()
    print(f"| {text} | {before:.3f} | {share():.3f} |", flush=True)


def _made(model: str, runs: int) -> night_noise.Noise:
    return getattr(night_noise, model)(np.random.default_rng(20261127), (runs, QUIET))


def _false(model: str, runs: int) -> float:
    told = filed(_made(model, runs), Plan(nights=40), first=10)
    return sum(ticket.share > 0 for ticket in told) / (30 * runs / 100)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
