"""The harness's median over torch.utils.benchmark's on the same op, and the monitor's cost."""

import json
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext

import torch
from torch.utils.benchmark import Timer

from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.monitor import Monitor
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.timing import time_step
from workloads.harness.probes.cpu import cores
from workloads.harness.records.intervals import median_interval

PAIRS = 9
TURNS, TURN_S = 60, 1.0
GOAL_MEDIAN = "0.99 to 1.01"
GOAL_MONITOR = 1.005
GOAL_QUICK = 1.5
QUICK = (("matmul", "--size=n=500"), ("image_pipeline", "--size=pixels=512,batch=1"))


def harness_s(a: torch.Tensor, b: torch.Tensor) -> float:
    return time_step(lambda: a @ b, HostClock(), Rules(), Phases()).wall.median_s


def torch_s(a: torch.Tensor, b: torch.Tensor) -> float:
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return timer.blocked_autorange(min_run_time=0.8).median


def medians() -> None:
    torch.set_num_threads(cores())
    for n in (128, 512, 1024):
        a, b = torch.randn(n, n), torch.randn(n, n)
        ratios = []
        for pair in range(PAIRS):
            turns = (harness_s, torch_s) if pair % 2 else (torch_s, harness_s)
            seconds = {turn: turn(a, b) for turn in turns}
            ratios.append(seconds[harness_s] / seconds[torch_s])
        low, high = min(ratios), max(ratios)
        ratio = statistics.median(ratios)
        print(
            f"harness / torch.utils.benchmark, matmul n={n}: {ratio:.4f} ({low:.3f} to {high:.3f}, goal {GOAL_MEDIAN})"
        )


def quick_record() -> None:
    """Print the time of quick records without their start, over their samples' time."""
    for case in QUICK:
        command = [sys.executable, "-m", "workloads", "run", *case, "--quick"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # 1: noisy
        record = json.loads(done.stdout)
        phases_s = record["phases_s"]
        start_s = phases_s["process_start"] + phases_s["import"]
        ratio = (record["wall_s"] - start_s) / phases_s["samples"]
        print(
            f"quick record / its samples, {' '.join(case)}: {ratio:.2f} (goal at most {GOAL_QUICK}); "
            f"start {start_s:.1f} s, samples {phases_s['samples']:.1f} s, whole {record['wall_s']:.1f} s"
        )


def monitor() -> None:
    """Print the time with the monitor over that without, in many short turns."""
    torch.set_num_threads(cores())
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    ratios = []
    for turn in range(TURNS):
        seconds = {}
        for watched in (True, False) if turn % 2 else (False, True):
            with Monitor() if watched else nullcontext():
                seconds[watched] = _for_a_while_s(a, b)
        ratios.append(seconds[True] / seconds[False])
    middle = median_interval(ratios)
    print(
        f"with monitor / without: {middle.value:.4f} "
        f"(95 % interval {middle.low:.4f} to {middle.high:.4f}, goal at most {GOAL_MONITOR})"
    )


def _for_a_while_s(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return mean seconds per product over a second, with all disturbances, as the monitor is one."""
    count, started = 0, time.perf_counter()
    while (spent_s := time.perf_counter() - started) < TURN_S:
        a @ b
        count += 1
    return spent_s / count
