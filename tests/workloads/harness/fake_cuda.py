"""An asynchronous device in virtual time, whose streams work on while the host goes on.

It replaces `torch.cuda` and the host's clock beneath the real `CudaClock`. Times are virtual seconds; nothing
sleeps.
"""

from collections import defaultdict, deque

import torch

from tests.workloads.harness.virtual import VirtualTime
from workloads.harness.engine import clock

LAUNCH_S = 4e-6  # the host's cost of a launch
# Limit of pending launches of a stream, above which the host waits for the first to end: about this number was
# seen on each of several streams, in thread 68937 of forums.developer.nvidia.com.
MOST_PENDING = 1000


class FakeCuda(VirtualTime):
    """A device with any number of streams; the current one is called main."""

    def __init__(self, waiting_s=0.0):
        """`waiting_s` is the host's cost of waiting for an idle device."""
        super().__init__()
        self.waiting_s = waiting_s
        self.busy_until_s = {"main": 0.0}
        self._pending = defaultdict(deque)  # the end of each stream's queue
        self.synchronized = 0

    def launch(self, seconds, stream="main"):
        """Queue work; return at once, or once the queue has room."""
        self.now_s += LAUNCH_S
        pending = self._pending[stream]
        while pending and (pending[0] <= self.now_s or len(pending) >= MOST_PENDING):
            self.now_s = max(self.now_s, pending.popleft())
        self.busy_until_s[stream] = max(self.busy_until_s.get(stream, 0.0), self.now_s) + seconds
        pending.append(self.busy_until_s[stream])

    def wait_for(self, stream):
        """Make the main stream wait for another, as `current_stream().wait_stream(other)` does."""
        self.busy_until_s["main"] = max(self.busy_until_s["main"], self.busy_until_s[stream])

    def synchronize(self, device=None):
        self.synchronized += 1
        self.now_s = max(self.now_s, *self.busy_until_s.values()) + self.waiting_s

    def install(self, monkeypatch):
        """Put this device beneath the engine; return the engine's clock for it."""
        fake = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                fake.busy_until_s["main"] = max(fake.busy_until_s["main"], fake.now_s)
                self.at_s = fake.busy_until_s["main"]

            def synchronize(self):
                fake.now_s = max(fake.now_s, self.at_s)

            def query(self):
                return fake.now_s >= self.at_s

            def elapsed_time(self, other):
                return (other.at_s - self.at_s) * 1e3

        super().install(monkeypatch)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: fake.launch(cycles / clock.MOST_HZ))
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        return clock.CudaClock(torch.device("cpu"))
