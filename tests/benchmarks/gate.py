"""The gate over 1,000 and 10,000 series of 365 nights, each night judged in turn.

Each size has its own process, because peak memory never falls within one.
"""

import json
import subprocess
import sys
import time

import numpy as np

from tasks.regressions.nightly_gate import screen
from tasks.regressions.panel import SeriesPanel
from tasks.regressions.series import SeriesKey
from tests.benchmarks.stack import ROOT
from workloads.harness.probes.memory import peak_rss_bytes

SERIES, NIGHTS = (1_000, 10_000), 365
GOAL_S, GOAL_BYTES = 60.0, 2 * 10**9
GOAL = 1.25  # of the time per series at the smaller number


def panel_of(series: int) -> SeriesPanel:
    """Return series of 2 % noise with a control that sees half of it; one number in 50 is missing."""
    rng = np.random.default_rng(8)
    shape = series, NIGHTS
    box = rng.normal(0, 0.014, shape)
    log_s = box + rng.normal(0, 0.014, shape)
    log_s[rng.random(shape) < 0.02] = np.nan
    nothing = np.zeros(shape, np.int64)
    return SeriesPanel(
        keys=tuple(SeriesKey("machine", f"case-{row}", "main") for row in range(series)),
        runs=tuple(f"night-{night:03}" for night in range(NIGHTS)),
        log_s=log_s,
        log_control_s=box + rng.normal(0, 0.014, shape),
        own=np.full(shape, np.nan),
        own_control=np.full(shape, np.nan),
        together=np.full(shape, np.nan),
        segment=nothing,
        alike=np.zeros(shape, np.bool_),
        missed=nothing,
        alone=np.zeros(series),
        hardware=np.zeros(series, np.int64),
        planned=np.ones(series, np.bool_),
    )


def replay(series: int) -> dict[str, float]:
    """Return seconds of CPU for all nights and for the last, peak memory, and the suspects."""
    panel = panel_of(series)
    started = time.process_time()
    suspects = sum(len(screen(panel, (), night).suspects) for night in range(NIGHTS))
    all_s = time.process_time() - started
    started = time.process_time()
    screen(panel, ()).states()
    last_s = time.process_time() - started
    peak_bytes = peak_rss_bytes()
    return {"all_s": all_s, "last_s": last_s, "peak_bytes": peak_bytes, "suspects": suspects}


def main() -> None:
    found = {}
    for series in SERIES:
        command = [sys.executable, "-m", "tests.benchmarks.gate", str(series)]
        found[series] = json.loads(subprocess.check_output(command, cwd=ROOT, text=True))
    for series, cost in found.items():
        print(
            f"gate: {series} series × {NIGHTS} nights: {cost['all_s']:.1f} s CPU for every night in turn, "
            f"{1e3 * cost['last_s']:.0f} ms for the last alone, peak {cost['peak_bytes'] / 2**20:.0f} MiB, "
            f"{100 * cost['suspects'] / series / NIGHTS:.1f} suspects in 100 nights"
        )
    small, large = (found[series] for series in SERIES)
    growth = large["all_s"] / SERIES[1] / (small["all_s"] / SERIES[0])
    print(f"gate: time a series x{growth:.2f} at ten times as many (goal {GOAL})")
    print(
        f"gate: x{large['all_s'] / GOAL_S:.2f} of {GOAL_S:.0f} s, x{large['peak_bytes'] / GOAL_BYTES:.2f} of 2 GB"
    )


if __name__ == "__main__":
    print(json.dumps(replay(int(sys.argv[1]))))
