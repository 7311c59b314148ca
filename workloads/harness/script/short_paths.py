"""Watches on backward calls and loaders that take the notes of further steps themselves.

They run in each of millions of steps. A Python function takes 2 to 6 µs there, though 0.2 µs in a loop, because the
step has taken its code out of the caches. So each watch is one function, without a lock, that can't raise. Whatever
differs from the steps before, it hands to the guarded note in `hooks`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from workloads.harness.script.loaders import LoaderPass
from workloads.harness.script.observations import LOSSES, Observations
from workloads.harness.script.watching import WatchedNumber, WatchedReading

Passes = Mapping[int, tuple[Any, LoaderPass]]  # by the id of a loader's iterator


class WatchedEngine(WatchedReading):
    """The reading of autograd's engine in each backward call.

    Args:
        backward: the code of `torch.autograd.backward`; calls by other functions are handed to `note`.
        graph_task: returns a negative number outside another backward call.
    """

    def __init__(
        self,
        kind: type,
        reader: CodeType,
        note: Callable[[Any, FrameType], None],
        observed: Observations,
        backward: CodeType,
        graph_task: Callable[[], int],
    ) -> None:
        super().__init__(kind, "_execution_engine", reader, note)
        self._observed, self._backward, self._graph_task = observed, backward, graph_task

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Return the engine, and note a backward call."""
        frame, observed = sys._getframe(1), self._observed
        if owner is not None or frame.f_code is not self._reader:
            return self._value(owner)
        caller = frame.f_back
        if (
            observed.calls is None
            and len(observed.losses) >= LOSSES
            and not observed.counts_backwards
            and caller is not None
            and caller.f_code is self._backward
            and self._graph_task() < 0
        ):
            observed.backwards += 1
        else:
            self._note(owner, frame)
        return self._real


class WatchedRequest(WatchedReading):
    """The reading of its name by a loader's iterator when it is asked for a batch."""

    def __init__(
        self,
        kind: type,
        reader: CodeType,
        note: Callable[[Any, FrameType], None],
        observed: Observations,
        passes: Passes,
    ) -> None:
        super().__init__(kind, "_profile_name", reader, note)
        self._observed, self._passes = observed, passes

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Return the name, and note that a known loader is asked for a batch."""
        frame, observed = sys._getframe(1), self._observed
        if frame.f_code is self._reader:
            known = self._passes.get(id(owner))
            if known is None or observed.loading:
                self._note(owner, frame)
            else:
                observed.loading, observed.awaited = get_ident(), known[1]
                known[1].asked_s = time.perf_counter()
            return owner.__dict__["_profile_name"]
        return self._value(owner)


class WatchedBatches(WatchedNumber):
    """The number of batches of a loader's iterator."""

    def __init__(
        self, kind: type, note: Callable[[Any, int], None], observed: Observations, passes: Passes
    ) -> None:
        super().__init__(kind, "_num_yielded", note)
        self._observed, self._passes = observed, passes

    def __set__(self, owner: Any, value: Any) -> None:
        """Set the number, and note a batch that is not looked at."""
        owner.__dict__["_num_yielded"] = value
        known, observed = self._passes.get(id(owner)), self._observed
        if known is None or not value or known[1].settled != observed.loaders.generation:
            self._note(owner, value)
            return
        loader_pass = known[1]
        loader_pass.batches, observed.loading = value, 0
        if observed.rest_share is None:
            observed.loader_s += time.perf_counter() - loader_pass.asked_s
