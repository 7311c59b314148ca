"""Time the transfer of inputs and result, pageable and pinned; buffers are reused."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from workloads.harness.engine.device import Device
from workloads.harness.records.record import Transfer

if TYPE_CHECKING:
    import torch

REPEATS = 5
PIECE_BYTES = 2**26  # a power of two, as torch's allocator of pinned memory rounds up to one
MOST_BYTES = 2**30  # that are moved to time a larger transfer, whose rate is theirs
Move = Callable[[int], object]  # moves this number of bytes


def size_bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def measure_transfer(device: Device, inputs: Sequence[torch.Tensor], result: torch.Tensor) -> Transfer:
    if device.is_host:
        return Transfer()
    import torch

    there, back = [size_bytes([t]) for t in inputs], [size_bytes([result])]
    longest = min(max(*there, *back, 1), PIECE_BYTES)
    far = torch.zeros(longest, dtype=torch.uint8, device=device.torch_device)
    pageable = torch.ones(longest, dtype=torch.uint8)  # pages of zeros might share one, which is in the cache
    pinned = pageable.pin_memory()

    def to_device(near: torch.Tensor) -> Move:
        return lambda size: far[:size].copy_(near[:size], non_blocking=True)

    def to_host(near: torch.Tensor) -> Move:
        return lambda size: near[:size].copy_(far[:size], non_blocking=True)

    return Transfer(
        h2d_bytes=sum(there),
        d2h_bytes=sum(back),
        h2d_pageable_s=_seconds(device, there, to_device(pageable)),
        h2d_pinned_s=_seconds(device, there, to_device(pinned)),
        d2h_pageable_s=_seconds(device, back, to_host(pageable)),
        d2h_pinned_s=_seconds(device, back, to_host(pinned)),
    )


def fetch(result: torch.Tensor) -> None:
    parts = size_bytes([result]) // PIECE_BYTES
    for part in result.chunk(parts) if parts > 1 else (result,):
        part.cpu()


def _seconds(device: Device, sizes: Sequence[int], move: Move) -> float:
    import torch

    moved = list(_pieces(sizes))
    seconds = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize(device.torch_device)
        started = time.perf_counter()
        for size in moved:
            move(size)
        torch.cuda.synchronize(device.torch_device)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:]) * max(sum(sizes), 1) / max(sum(moved), 1)


def _pieces(sizes: Sequence[int]) -> Iterator[int]:
    left = MOST_BYTES
    for size in sizes:
        while size > 0 and left > 0:
            piece = min(size, PIECE_BYTES)
            yield piece
            size, left = size - piece, left - piece
