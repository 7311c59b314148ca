"""A device's fastest matrix product, searched over m, n and k once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from workloads.harness.engine.clock import Clock, CudaClock, HostClock
from workloads.harness.engine.device import dtype_of
from workloads.harness.probes.memory import available_bytes
from workloads.harness.probes.roof import SIZES, facts_here, keep_roof, kept_roof, roof_path
from workloads.harness.records.case import FP8
from workloads.harness.roofline.search import GRAIN, Search, Size, Space

if TYPE_CHECKING:
    import torch

SEARCH_S = 15.0
SAMPLE_S = 0.005  # of a block of products; one that takes longer is a block
DRAWN = 2**20  # values that are drawn; larger factors repeat them
SHARE_OF_MEMORY = 0.25


def flops_of(size: Size) -> float:
    return 2.0 * math.prod(size)


def product_in(precision: str, device: torch.device) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the product of activations (m x k) and weights (n x k), in bf16 for fp8."""
    import torch

    if precision != FP8:
        return lambda a, weights: a @ weights.T
    scale = torch.ones((), device=device)
    return lambda a, weights: torch._scaled_mm(a, weights.T, scale, scale, out_dtype=torch.bfloat16)


def fastest_product(
    device: torch.device, precision: str, most: int, budget_s: float = SEARCH_S, again: bool = False
) -> Size:
    import torch

    if type(torch.empty(0, device=device)) is not torch.Tensor:
        return (most,) * 3
    name, threads = device.type, torch.get_num_threads()
    path, key = roof_path(facts_here(name), name, threads), f"{precision}/{most}"
    kept = kept_roof(path)
    if not again and _is_size(size := kept[SIZES].get(key), most):
        return tuple(size)
    size = search(device, precision, most, budget_s).best()
    kept = kept_roof(path)
    keep_roof(path, kept | {SIZES: kept[SIZES] | {key: size}})
    return size


def search(device: torch.device, precision: str, most: int, budget_s: float) -> Search:
    products = Products(device, precision)
    room = SHARE_OF_MEMORY * _free_bytes(device)

    def fits(size: Size) -> bool:
        m, n, k = size
        return products.element_bytes * (m * k + n * k) + max(products.element_bytes, 2) * m * n <= room

    now = products.clock.now
    return Search(Space((most,) * 3, flops_of, fits), products.sample_s, now, budget_s)


class Products:
    """Products of any size, by views of two growing buffers."""

    def __init__(self, device: torch.device, precision: str) -> None:
        import torch

        self.clock: Clock = CudaClock(device) if device.type == "cuda" else HostClock()
        self.element_bytes = dtype_of(precision).itemsize
        self._product = product_in(precision, device)
        drawn = torch.randn(2, DRAWN, generator=torch.Generator().manual_seed(0))
        self._buffers = list(drawn.to(device).to(dtype_of(precision)).unbind())
        self._seen: set[Size] = set()

    def sample_s(self, size: Size) -> float:
        """Return seconds of one product, by a block of them on the device's clock."""
        m, n, k = size
        a, weights = self._values(0, m * k).view(m, k), self._values(1, n * k).view(n, k)
        if size not in self._seen:  # the first one also loads its kernel, so its rate does not count
            self._seen.add(size)
            self._product(a, weights)
        single_s = self._time_s(a, weights, 1)
        if single_s >= SAMPLE_S:
            return single_s
        count = math.ceil(SAMPLE_S / max(single_s, 1e-7))
        return self._time_s(a, weights, min(count, 10_000))

    def _time_s(self, a: torch.Tensor, weights: torch.Tensor, count: int) -> float:
        reading = self.clock.time(lambda: self._product(a, weights), count)
        return (reading.wall_s if reading.device_s is None else reading.device_s) / count

    def _values(self, index: int, count: int) -> torch.Tensor:
        """Return `count` values of a buffer; torch repeats no fp8, but its bytes."""
        import torch

        buffer = self._buffers[index]
        if buffer.numel() < count:
            times = 1 << (math.ceil(count / buffer.numel()) - 1).bit_length()
            self._buffers[index] = buffer.view(torch.uint8).repeat(times).view(buffer.dtype)
        return self._buffers[index][:count]


def _is_size(size: object, most: int) -> bool:
    if not isinstance(size, list) or len(size) != 3:
        return False
    return all(type(side) is int and 0 < side <= most and side % GRAIN in (0, most % GRAIN) for side in size)


def _free_bytes(device: torch.device) -> float:
    import torch

    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return available_bytes() or 2**30
