"""The run gate over simulated runs: `python -m tests.benchmarks.simulated.gate [--runs N]`.

It prints the table of docs/bisect-and-gate.md: how many comparisons of two runs without any change fail, by what a
run does to each cell besides its repeats, and how many show one of their cells 5 % slower. Some two minutes.
"""

import argparse
import math

import numpy as np

from tasks.regressions.change import Sample, changes_between

NOISE, LEAST = 0.01, 0.02  # from repeat to repeat, and the least change of interest
SESSIONS = (0.0, 0.005, 0.01, 0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    effects = " | ".join(f"effect {100 * session:g} %" for session in SESSIONS)
    print(f"| cells, repeats | {effects} | the same on all cells, 1 % | 5 % slower is shown |")
    print("| --- " * (len(SESSIONS) + 3) + "|")
    for cells in (7, 14, 45):
        for repeats in (3, 5):
            false = [failures(cells, repeats, session, runs)[0] for session in SESSIONS]
            alike = failures(cells, repeats, 0.01, runs, alike=True)[0]
            shown = failures(cells, repeats, 0.0, runs, math.log(1.05))[1]
            shares = " | ".join(f"{share:.2f}" for share in (*false, alike, shown))
            print(f"| {cells}, {repeats} | {shares} |", flush=True)


def failures(
    cells: int, repeats: int, session: float, runs: int, shift: float = 0.0, alike: bool = False
) -> tuple[float, float]:
    """Shares of comparisons of which some cell, and of which the first cell, is slower; only that has a shift."""
    rng, any_, first = np.random.default_rng(20261123), 0, 0
    for _ in range(runs):
        levels = rng.normal(0, session, (2, 1 if alike else cells)) * np.ones((2, cells))
        levels[0, 0] += shift
        times = np.exp(levels[..., None] + rng.normal(0, NOISE, (2, cells, repeats)))
        sides = [(Sample(tuple(now)), Sample(tuple(before))) for now, before in zip(*times, strict=True)]
        changes = changes_between(sides, 1 - 0.1 / cells, LEAST)
        slower = [change.direction(LEAST) > 0 for change in changes]
        any_, first = any_ + any(slower), first + slower[0]
    return any_ / runs, first / runs


if __name__ == "__main__":
    main()
