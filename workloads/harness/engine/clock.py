"""Clocks for blocks of steps: the host's, and the device's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

MOST_HZ = 2e9  # of the fastest GPUs: on slower ones a kernel that counts cycles spins longer
Step = Callable[[], Any]
STRAGGLE_MIN_S = 20e-6  # less can't be distinguished from the jitter of the host's waiting


@dataclass(frozen=True, slots=True)
class Reading:
    """One timed block.

    Attributes:
        wall_s: host seconds from before the first step until the whole device was idle again.
        device_s: seconds between events on the current stream; None if the host is the device.
        straggle_s: part of `wall_s` in which the device still worked after the timed stream had ended; 0 if
            too short for the host to measure.
        result: the last step's return value.
    """

    wall_s: float
    device_s: float | None
    straggle_s: float
    result: Any


class Clock(Protocol):
    """A clock for blocks of steps."""

    def time(self, step: Step, count: int) -> Reading: ...

    def now(self) -> float: ...

    def busy_s(self, step: Step, count: int, hold_s: float) -> float | None: ...


class HostClock:
    """A clock for a CPU, which computes on the calling thread."""

    def now(self) -> float:
        return time.perf_counter()

    def time(self, step: Step, count: int) -> Reading:
        started = time.perf_counter_ns()
        for _ in range(count - 1):
            step()  # a result kept into the next step would take its memory twice
        result = step()
        return Reading((time.perf_counter_ns() - started) / 1e9, None, 0.0, result)

    def busy_s(self, step: Step, count: int, hold_s: float) -> float | None:
        return None


class CudaClock(HostClock):
    """A clock for CUDA: events on the current stream, and a wait for all streams."""

    def __init__(self, device: torch.device) -> None:
        import torch

        self._device = device
        event: Any = torch.cuda.Event
        self._events = (event(enable_timing=True), event(enable_timing=True))

    def time(self, step: Step, count: int) -> Reading:
        import torch

        first, last = self._events
        torch.cuda.synchronize(self._device)
        started = time.perf_counter_ns()
        first.record()
        for _ in range(count - 1):
            step()
        result = step()
        last.record()
        last.synchronize()
        stream_ended = time.perf_counter_ns()
        torch.cuda.synchronize(self._device)
        ended = time.perf_counter_ns()
        torch.cuda.synchronize(self._device)  # of an idle device: the host's cost of a wait
        waiting_ns = time.perf_counter_ns() - ended
        straggle_s = (ended - stream_ended - waiting_ns) / 1e9
        straggle_s = straggle_s if straggle_s > STRAGGLE_MIN_S else 0.0
        return Reading((ended - started) / 1e9, first.elapsed_time(last) / 1e3, straggle_s, result)

    def busy_s(self, step: Step, count: int, hold_s: float) -> float | None:
        """Return the device's seconds per step with all steps queued beforehand.

        A spinning kernel holds the device back for `hold_s`; None if it ended before all steps were queued.
        """
        import torch

        cuda: Any = torch.cuda
        first, last = self._events
        cuda.synchronize(self._device)
        cuda._sleep(int(hold_s * MOST_HZ))
        first.record()
        for _ in range(count):
            step()
        last.record()
        held = not first.query()
        cuda.synchronize(self._device)
        return float(first.elapsed_time(last)) / 1e3 / count if held else None


def timer_cost_s(clock: Clock, tries: int = 50) -> float:
    return min(clock.time(lambda: None, 1).wall_s for _ in range(tries))
