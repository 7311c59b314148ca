"""Time that passes only when something sleeps or computes, for exact results."""

import time

from workloads.harness.engine import clock, phases


class VirtualTime:
    """A replacement of the module `time` beneath the engine."""

    clock_gettime, CLOCK_BOOTTIME = time.clock_gettime, time.CLOCK_BOOTTIME

    def __init__(self, look_s=1e-7):
        self.now_s = 1000.0
        self._look_s = look_s  # what reading the clock takes

    def sleep(self, seconds):
        self.now_s += seconds

    def perf_counter(self):
        self.now_s += self._look_s
        return self.now_s

    def perf_counter_ns(self):
        return round(self.perf_counter() * 1e9)

    def install(self, monkeypatch):
        """Put this time beneath every part of the engine that reads one."""
        for module in (clock, phases):
            monkeypatch.setattr(module, "time", self)
        return self
