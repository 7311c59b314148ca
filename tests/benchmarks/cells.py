"""Orchestration cost of a cell that does nothing, at 100, 1,000 and 10,000 cells. Goal: flat, under 0.1 s."""

import subprocess
import sys
import time

from tests.benchmarks.stack import HERE, ROOT, run, stack

CELLS = (100, 1_000, 10_000)
GOAL_S = 0.1
SAMPLE = 50
FIXED = 3  # runs of one cell, the shortest of which counts
TIMES = {100: 3}  # runs of seconds, whose median counts: a lock of the database can delay one by 2 s


def bare_s() -> float:
    """Return seconds of the command without orchestration."""
    words = "run nothing --size=n=1 --precision=fp32 --run=r --hardware=h --repeat=1 --order=0 --seed=0 --device=cpu"
    started = time.perf_counter()
    for _ in range(SAMPLE):
        subprocess.run(
            [sys.executable, str(HERE / "instant.py"), *words.split()],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    return (time.perf_counter() - started) / SAMPLE


def main() -> None:
    """Print the cost at each number of cells, with and without that of a run of one cell, and `bench`'s memory."""
    base = None
    with stack((1, *CELLS)) as up:
        run(up, f"nothing-{CELLS[0]}", ["instant"])  # the first run of a server is not like the others
        each_s = bare_s()
        fixed_s = min(run(up, "nothing-1", ["instant"]).wall_s for _ in range(FIXED)) - each_s
        for n in CELLS:
            runs = [run(up, f"nothing-{n}", ["instant"]) for _ in range(TIMES.get(n, 1))]
            ran = sorted(runs, key=lambda one: one.wall_s)[len(runs) // 2]
            cost_s = ran.wall_s / n - each_s
            base = base or cost_s
            print(
                f"orchestration at {n} cells: {cost_s:.3f} s a cell, {cost_s - fixed_s / n:.3f} s beside the {fixed_s:.1f} s "
                f"that a run of one cell takes and {each_s:.3f} s for each process, "
                f"{cost_s / base:.2f} of the cost at {CELLS[0]} (goal under {GOAL_S} s and flat); "
                f"the run took {ran.wall_s:.1f} s, bench had at most {ran.peak_bytes / 2**20:.0f} MiB"
            )
