"""Simulated devices: the rate of a product by m, n and k, with a virtual clock and noise.

Their parameters are drawn from a seed. The search's settings were chosen on seeds 0 to 19, and are tested on
others.
"""

import itertools
import math
import random

from workloads.harness.roofline.products import flops_of
from workloads.harness.roofline.search import Search, Space

SAMPLE_S = 0.02
SIDES = {"cpu": (128, 256, 512, 1024, 2048, 4096), "gpu": (512, 1024, 2048, 4096, 6144, 8192, 12_288, 16_384)}
SCAN_S = {"cpu": 0.6, "gpu": 0.15}  # of a size in the scan: three samples that a person would trust
FIRST_UNSEEN = 1000
# Rows and columns of a tile, and its speed over that of the best kernel.
TILES = (
    *((128, 256, 1.0), (256, 128, 0.995), (256, 256, 0.97), (128, 128, 0.93)),
    *((128, 64, 0.8), (64, 64, 0.62)),
)
MULTIPROCESSORS = (40, 58, 72, 80, 84, 108, 114, 128, 132, 142, 144, 148, 170)


class Surface:
    """A device with a rate for every size; a sample takes its time by `now_s`."""

    def __init__(self, kind, seed):
        self.seed, self.draw, self.now_s = f"{kind}{seed}", random.Random(f"{kind}{seed}"), 0.0
        self.samples = random.Random(f"noise of {kind}{seed}")
        self.sides, self.scan_s = SIDES[kind], SCAN_S[kind]

    def rate(self, size):
        """FLOP/s without noise; each size deviates a little from the smooth surface, reproducibly."""
        off = 1 + self.roughness * random.Random(f"{self.seed}{size}").random()
        return flops_of(size) / (self.product_s(size) * off + self.launch_s)

    def sample_s(self, size):
        """Seconds of one product: noise makes it longer, an interruption much longer."""
        single_s = flops_of(size) / self.rate(size)
        factor = 1 + abs(self.samples.gauss(0, self.noise))
        if self.samples.random() < self.interrupted:
            factor *= 1 + self.samples.uniform(0, 0.5)
        self.now_s += max(1, round(SAMPLE_S / single_s)) * single_s * factor + 50e-6
        return single_s * factor

    def scanned(self):
        """Return the best rate of a coarse scan without noise, and its seconds."""
        rates = {size: self.rate(size) for size in itertools.product(self.sides, repeat=3)}
        seconds = math.fsum(max(self.scan_s, 3 * flops_of(size) / rate) for size, rate in rates.items())
        return max(rates.values()), seconds

    def searched(self, budget_s):
        space = Space((self.sides[-1],) * 3, flops_of)
        return Search(space, self.sample_s, lambda: self.now_s, budget_s).best()


class Cpu(Surface):
    """Each side saturates; beyond some size it falls slowly, as memory and address translation limit it."""

    def __init__(self, seed):
        super().__init__("cpu", seed)
        draw = self.draw
        self.peak = 10 ** draw.uniform(10.7, 12.7)
        self.half = [2 ** draw.uniform(2, 7) for _ in range(3)]
        self.large, self.fall = 2 ** draw.uniform(10, 13), draw.uniform(0, 0.06)
        self.roughness, self.launch_s = draw.uniform(0, 0.03), 10 ** draw.uniform(-6, -5)
        self.noise, self.interrupted = draw.uniform(0.002, 0.03), draw.uniform(0, 0.15)

    def product_s(self, size):
        share = 1.0
        for side, half in zip(size, self.half, strict=True):
            share *= side / (side + half) * (1 - self.fall * max(math.log2(side / self.large), 0))
        return flops_of(size) / (self.peak * share)


class Gpu(Surface):
    """Tiles in waves over the multiprocessors, by the best of several kernels; odd sides cost a tenth."""

    def __init__(self, seed):
        super().__init__("gpu", seed)
        draw = self.draw
        self.multiprocessors = draw.choice(MULTIPROCESSORS)
        self.each = 10 ** draw.uniform(11.5, 12.9)
        self.tiles = draw.sample(TILES, draw.randint(3, 6))
        self.half_k, self.aligned = 2 ** draw.uniform(5, 8), draw.choice((8, 16, 32, 64))
        self.large, self.fall = 2 ** draw.uniform(12, 14), draw.uniform(0, 0.03)
        self.roughness, self.launch_s = draw.uniform(0, 0.04), 10 ** draw.uniform(-5.6, -5)
        self.noise, self.interrupted = draw.uniform(0.002, 0.015), 0.02

    def product_s(self, size):
        m, n, k = size
        fastest_s = min(
            math.ceil(math.ceil(m / rows) * math.ceil(n / columns) / self.multiprocessors)
            * (2 * rows * columns * (k + self.half_k) / (self.each * speed))
            for rows, columns, speed in self.tiles
        )
        odd = sum(side % self.aligned > 0 for side in size)
        heat = 1 + self.fall * max(math.log2((m * n * k) ** (1 / 3) / self.large), 0)
        return fastest_s * 1.1**odd * heat


def shares(kind, seeds, part):
    """Return by device the found rate over the scan's best, and the search's time over the scan's.

    `part` of the scan's time is the search's budget.
    """
    pairs = []
    for seed in seeds:
        surface = kind(seed)
        best, scan_s = surface.scanned()
        size = surface.searched(part * scan_s)
        pairs.append((surface.rate(size) / best, surface.now_s / scan_s))
    return pairs
