"""The search for the fastest product against a coarse exhaustive scan: its rate and its time."""

import itertools
import math
import statistics
import time

import torch

from tests.workloads.harness.roofline.surfaces import FIRST_UNSEEN, Cpu, Gpu, shares
from workloads.harness.engine.device import open_device
from workloads.harness.probes.cpu import cores
from workloads.harness.roofline.products import Products, flops_of, search

SIDES = (128, 256, 512, 1024, 2048, 4096)
LEAST_S, PASSES = 0.1, 3  # of each size in a pass of the scan
PART = 0.095  # of the scan's time, for the search: its last sample can end late
PAIRS = 15
UNSEEN = range(2 * FIRST_UNSEEN, 2 * FIRST_UNSEEN + 60)  # by the unit tests neither
GOAL, GOAL_TIME = 0.99, 0.1


def main() -> None:
    """Print both ratios, of simulated devices and of this one, by pairs of fresh samples in turns."""
    for kind in (Cpu, Gpu):
        pairs = shares(kind, UNSEEN, PART)
        reached = sum(share >= GOAL for share, _ in pairs)
        print(
            f"roof, made-up devices like a {kind.__name__}: {reached} of {len(pairs)} reach {GOAL:.0%} of a scan's best, "
            f"the worst {min(share for share, _ in pairs):.3f}, in at most {max(part for _, part in pairs):.3f} of its time"
        )
    here("fp32")


def here(precision: str) -> None:
    device = open_device("cpu", precision, cores())
    products = Products(device.torch_device, precision)
    started = time.perf_counter()
    scanned = scan(products)
    scan_s = time.perf_counter() - started
    started = time.perf_counter()
    size = search(torch.device("cpu"), precision, SIDES[-1], PART * scan_s).best()
    search_s = time.perf_counter() - started
    ratio, low, high = compared(products, size, scanned)
    rate = flops_of(size) / statistics.median(products.sample_s(size) for _ in range(5)) / 1e9
    print(
        f"roof, {precision} on this CPU: search {size} / scan {scanned}: {ratio:.3f} ({low:.3f} to {high:.3f} are the "
        f"quartiles of {PAIRS} pairs, goal at least {GOAL}); {rate:.0f} GFLOP/s"
    )
    print(
        f"roof, time of the search / of the scan of {len(SIDES) ** 3} sizes: {search_s / scan_s:.3f} (goal at most {GOAL_TIME}); "
        f"{search_s:.1f} s of {scan_s:.0f} s"
    )


def scan(products: Products) -> tuple[int, ...]:
    """Return the fastest of all combinations of sides, by the median of a few passes of 0.1 s."""
    rates: dict[tuple[int, ...], list[float]] = {size: [] for size in itertools.product(SIDES, repeat=3)}
    for _ in range(PASSES):
        for size, seen in rates.items():
            ends, times = time.perf_counter() + LEAST_S, []
            while not times or time.perf_counter() < ends:
                times.append(products.sample_s(size))
            seen.append(flops_of(size) / statistics.median(times))
    return max(rates, key=lambda size: statistics.median(rates[size]))


def compared(products: Products, size: tuple[int, ...], other: tuple[int, ...]) -> tuple[float, float, float]:
    """Return the ratio of two sizes' rates from fresh samples in turns: median and quartiles of pairs."""
    ratios = []
    for turn in range(PAIRS):
        rates = {}
        for one in (size, other) if turn % 2 else (other, size):
            rates[one] = flops_of(one) / products.sample_s(one)
        ratios.append(rates[size] / rates[other])
    low, middle, high = statistics.quantiles(ratios, n=4)
    assert math.isfinite(middle)
    return middle, low, high
