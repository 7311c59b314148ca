"""Transfers: moving a step's inputs to the device and its result back, pageable and pinned."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workloads.harness.engine.device import Device
from workloads.harness.records.record import Transfer

if TYPE_CHECKING:
    import torch

REPEATS = 5


def size_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Return the bytes of the tensors' elements."""
    return sum(t.numel() * t.element_size() for t in tensors)


def measure_transfer(device: Device, inputs: Sequence[torch.Tensor], result: torch.Tensor) -> Transfer:
    """Measure median seconds of moving `inputs` there and `result` back; zeros if the device is the host."""
    if device.is_host:
        return Transfer()
    import torch

    def timed(move: Callable[[], object]) -> float:
        move()
        seconds = []
        for _ in range(REPEATS):
            torch.cuda.synchronize(device.torch_device)
            started = time.perf_counter()
            move()
            torch.cuda.synchronize(device.torch_device)
            seconds.append(time.perf_counter() - started)
        return statistics.median(seconds)

    def there(tensors: Sequence[torch.Tensor]) -> float:
        return timed(lambda: [t.to(device.torch_device, non_blocking=True) for t in tensors])

    def back(target: torch.Tensor) -> float:
        return timed(lambda: target.copy_(result, non_blocking=True))

    host = [torch.empty_like(t, device="cpu").copy_(t) for t in inputs]  # pageable, even if they are pinned
    landing = torch.empty_like(result, device="cpu")
    return Transfer(
        h2d_bytes=size_bytes(inputs),
        d2h_bytes=size_bytes([result]),
        h2d_pageable_s=there(host),
        h2d_pinned_s=there([t.pin_memory() for t in host]),
        d2h_pageable_s=back(landing),
        d2h_pinned_s=back(landing.pin_memory()),
    )
