"""Phases of a process's wall time: named, and adding up however they nest."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class Phases:
    """Seconds by phase; an outer phase excludes inner ones.

    Attributes:
        inherited_s: of the processes that this one was forked from, not in `seconds`.
        origin_s: start of the process, on the clock of `time.perf_counter`.
    """

    def __init__(self, process_start_s: float = 0.0, inherited_s: Mapping[str, float] | None = None) -> None:
        self.seconds: dict[str, float] = {"process_start": process_start_s}
        self.inherited_s: dict[str, float] = dict(inherited_s or {})
        self.origin_s = time.perf_counter() - process_start_s
        self._inner: list[float] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
            if self._inner:
                self._inner[-1] += spent

    def with_inherited_s(self) -> dict[str, float]:
        names = dict.fromkeys((*self.inherited_s, *self.seconds))
        return {name: self.inherited_s.get(name, 0.0) + self.seconds.get(name, 0.0) for name in names}

    def wall_s(self) -> float:
        return time.perf_counter() - self.origin_s

    def close(self) -> tuple[float, float]:
        """Return the wall seconds so far, and those outside all phases."""
        wall = self.wall_s()
        return wall, wall - sum(self.seconds.values())


def since_process_start_s(stat: Path = Path("/proc/self/stat")) -> float:
    """Return this process's age to 10 ms; 0 without /proc."""
    try:
        ticks = int(stat.read_text().rpartition(")")[2].split()[19])
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
