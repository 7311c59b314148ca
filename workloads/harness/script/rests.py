"""Rests of the watches on backward calls and on the wait for loaders, in most of the steps that are short.

The watches take 10 to 15 µs of a step, since it takes their code and data out of the caches. A training
repeats its steps, so a few of them are watched and the next ones are taken to be the same. A rest ends early if a pass
over a loader begins or if another optimizer steps. Other changes show when it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from workloads.harness.script.hooks import Hooks
from workloads.harness.script.observations import Observations

# Steps in which all hooks watch, and then in which those of backward calls and of the wait for a loader rest. A step
# as long as `WATCHED_STEP_S` is always watched: the hooks take less than 0.5 % of it.
WATCHED, RESTED, WATCHED_STEP_S = 16, 240, 4e-3
StepHook = Callable[[Any, Any, Any], None]


class Rests:
    """The phases of a training with one optimizer: `WATCHED` steps, a rest, and so on."""

    def __init__(self, hooks: Hooks, observed: Observations) -> None:
        self._hooks, self._observed = hooks, observed
        self._began = (0, 0.0, 0.0)  # of the phase: steps, seconds, and seconds of waiting for loaders

    def phase_ended(self) -> None:
        """Begin a rest, if the phase that ends was like any other one of short steps; else watch."""
        observed = self._observed
        if observed.unseen_backwards:
            self.wake()
            return
        began, is_usual = self._began, not observed.has_new_pass
        self._watch()
        observed.has_new_pass = False
        steps, seconds, waited_s = (now - before for now, before in zip(self._began, began, strict=True))
        if not is_usual or steps != WATCHED or seconds > WATCHED * WATCHED_STEP_S or observed.loading:
            return
        calls = {after - before for before, after in pairwise(observed.backwards_at[-WATCHED:])}
        if len(calls) == 1 and min(calls) and not observed.compiled:
            observed.rest(waited_s / seconds, min(calls), RESTED)

    def wake(self) -> None:
        """End a rest, if there is one; its steps are counted."""
        if self._observed.unseen_backwards:
            self._observed.unseen_backwards = 0
            self._hooks.wake()
        self._watch()

    def _watch(self) -> None:
        observed = self._observed
        observed.phase_left = WATCHED
        self._began = len(observed.ends_s), observed.now_s(), observed.loader_s


def unwatched_step(
    observed: Observations,
    only: Callable[[], Any],
    graph_task: Callable[[], int],
    steps: int,
    other: Callable[[Any], None],
    due: Callable[[], None],
) -> StepHook:
    """Return the hook for the next `steps` of a rest, which notes their ends alone.

    Each object that it looks at is out of the caches and costs 0.3 µs.

    Args:
        only: returns the only optimizer.
        graph_task: returns a negative number outside backward calls.
        other: called with an optimizer if its step is another one than those before.
        due: called after the last of the steps.
    """
    append, now, paused_s = observed.ends_s.append, time.perf_counter, observed.paused_s

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal steps
        if only() is not optimizer or observed.loading or graph_task() >= 0:
            other(optimizer)
            return
        append(now() - paused_s)
        steps -= 1
        if steps <= 0 or not observed.phase_left:
            due()

    return stepped
