"""The harness's median over torch.utils.benchmark's on the same op, and what its monitor costs."""

import statistics
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch.utils.benchmark import Timer

from workloads.harness.clock import HostClock
from workloads.harness.monitor import Monitor
from workloads.harness.phases import Phases
from workloads.harness.probes.cpu import cores
from workloads.harness.sampling import Rules
from workloads.harness.timing import time_step

PAIRS = 9
GOAL_MEDIAN = "0.98 to 1.02"
GOAL_MONITOR = 1.005


def harness_s(a: torch.Tensor, b: torch.Tensor) -> float:
    """Seconds per product by the harness."""
    return time_step(lambda: a @ b, HostClock(), Rules(), Phases()).wall.median_s


def torch_s(a: torch.Tensor, b: torch.Tensor) -> float:
    """Seconds per step by torch's own benchmark."""
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return timer.blocked_autorange(min_run_time=0.8).median


def medians() -> None:
    """Print the ratio of the two medians, pair by pair, at a few sizes."""
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


def monitor() -> None:
    """Print the time with the monitor over the time without, in turns."""
    torch.set_num_threads(cores())
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    rules = replace(Rules(), warm_min_s=0.1, sample_min_s=2.0, max_samples=100_000, sample_cap_s=4.0)
    ratios = []
    for pair in range(PAIRS):
        seconds = {}
        for watched in (True, False) if pair % 2 else (False, True):
            with Monitor() if watched else nullcontext():
                samples = time_step(lambda: a @ b, HostClock(), rules, Phases()).wall.samples_s
            seconds[watched] = statistics.fmean(sorted(samples)[: int(0.99 * len(samples))])
        ratios.append(seconds[True] / seconds[False])
    ratio = statistics.median(ratios)
    print(
        f"with monitor / without: {ratio:.4f} ({min(ratios):.3f} to {max(ratios):.3f}, goal at most {GOAL_MONITOR})"
    )
