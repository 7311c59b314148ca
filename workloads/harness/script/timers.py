"""The ends of a block of steps: on the host's clock, and by events on a GPU that is never waited for."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

from workloads.harness.script.observations import Observations

HOST_S, DEVICE_S = 25e-6, 50e-6  # of a script's time, for the end of a block


@dataclass(frozen=True, slots=True)
class TimedBlock:
    """Seconds per step on the host, and between events on the device if there is one."""

    wall_s: float
    device_s: float | None = None

    @property
    def step_s(self) -> float:
        """By the device's clock, or the host's on a CPU."""
        return self.wall_s if self.device_s is None else self.device_s


class BlockTimer:
    """A timer of blocks of steps.

    On a GPU a block is read once the next one has ended, so that the device never idles because of the timer.
    """

    def __init__(self, observed: Observations) -> None:
        self._observed = observed
        self._begun_s = 0.0
        self._first: Any = None
        self._read_later: deque[tuple[float, int, Any, Any]] = deque()

    def begin(self) -> None:
        self._begun_s = self._observed.now_s()
        self._first = _event()

    def end(self, steps: int) -> TimedBlock:
        last = _event() if self._first is not None else None
        wall_s = self._observed.now_s() - self._begun_s
        if last is None:
            self._read_later.clear()
            return TimedBlock(wall_s / steps)
        self._read_later.append((wall_s, steps, self._first, last))
        wall_s, steps, first, last = self._read_later[0]
        if len(self._read_later) > 1:
            self._read_later.popleft()
        last.synchronize()
        return TimedBlock(wall_s / steps, first.elapsed_time(last) / 1e3 / steps)

    @property
    def cost_s(self) -> float:
        return HOST_S if self._first is None else DEVICE_S


def uses_gpu() -> bool:
    torch: Any = sys.modules.get("torch")
    return bool(torch and torch.cuda.is_initialized())


def gpu_in_use() -> int:
    return int(sys.modules["torch"].cuda.current_device()) if uses_gpu() else 0


def gpus_in_use() -> int:
    if not uses_gpu():
        return 0
    cuda: Any = sys.modules["torch"].cuda
    return sum(cuda.max_memory_allocated(index) > 0 for index in range(cuda.device_count()))


def _event() -> Any:
    """Record an event on the script's stream; None without a GPU or while it captures a graph."""
    if not uses_gpu():
        return None
    import torch

    if torch.cuda.is_current_stream_capturing():
        return None
    kind: Any = torch.cuda.Event
    event = kind(enable_timing=True)
    event.record(torch.cuda.current_stream())
    return event
