"""Overhead of the harness on steps of 1 and 10 ms, against a plain loop."""

import statistics
import time

from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.monitor import Monitor
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.timing import time_step

PAIRS = 9
PLAIN_S = 1.0
GOAL = 1.005


def main() -> None:
    for ms in (1, 10):
        ratios = []
        for pair in range(PAIRS):
            turns = (harness_s, plain_s) if pair % 2 else (plain_s, harness_s)
            seconds = {turn: turn(ms / 1e3) for turn in turns}
            ratios.append(seconds[harness_s] / seconds[plain_s])
        low, high = min(ratios), max(ratios)
        print(
            f"harness / plain loop, a step of {ms} ms: {statistics.median(ratios):.5f} "
            f"({low:.4f} to {high:.4f}, goal at most {GOAL})"
        )


def spin(length_s: float) -> None:
    """Return a step of known length, which ends by the clock."""
    end = time.perf_counter() + length_s
    while time.perf_counter() < end:
        pass


def harness_s(length_s: float) -> float:
    with Monitor():
        return time_step(lambda: spin(length_s), HostClock(), Rules(), Phases()).wall.median_s


def plain_s(length_s: float) -> float:
    seconds, ends = [], time.perf_counter() + PLAIN_S
    while time.perf_counter() < ends:
        started = time.perf_counter()
        spin(length_s)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
