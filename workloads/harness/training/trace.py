"""The trace of a whole job of several ranks, step by step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from workloads.harness.group.distributed import gathered, slowest

if TYPE_CHECKING:
    import torch


class Trace:
    """The time of every step, without waiting for the device; of some steps each rank's memory.

    No other process can see what a rank holds.
    """

    def __init__(self, device: torch.device, steps: int, every: int = 50) -> None:
        """Note memory after each `every` steps, and after the last of `steps`."""
        self._device, self._steps, self._every = device, steps, every
        self._marks: list[Any] = [self._mark()]
        self._memory: list[tuple[int, int, int, int, int]] = []

    def step_ended(self) -> None:
        """Note that a step has been handed to the device."""
        self._marks.append(self._mark())
        step = len(self._marks) - 1
        if step % self._every == 0 or step == self._steps:
            import torch.distributed as dist

            self._memory.append((step, dist.get_rank(), *_held_bytes(self._device)))

    def step_s(self) -> tuple[float, ...]:
        """Return the seconds of every step on its slowest rank, by the device's own clock if it has one."""
        if self._device.type == "cuda":
            self._marks[-1].synchronize()
            pairs = zip(self._marks, self._marks[1:], strict=False)
            return tuple(slowest([a.elapsed_time(b) / 1e3 for a, b in pairs]))
        return tuple(slowest([b - a for a, b in zip(self._marks, self._marks[1:], strict=False)]))

    def memory(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """Return rows of step, rank, and bytes allocated, reserved and at the peak; in order."""
        return tuple(sorted(row for rows in gathered(self._memory) for row in rows))

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def _held_bytes(device: torch.device) -> tuple[int, int, int]:
    """Allocated, reserved and the peak: of the device, or of the process where the host is the device."""
    if device.type != "cuda":
        import psutil

        from workloads.harness.probes.memory import peak_rss_bytes

        now = int(psutil.Process().memory_info().rss)
        return now, now, peak_rss_bytes()
    import torch

    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_allocated()
