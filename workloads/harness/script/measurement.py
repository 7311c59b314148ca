"""A script's measurement while it runs: fed by hooks, it decides when it has enough."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.script.course import Course, CoursePlan, Taken, course
from workloads.harness.script.hooks import Hooks
from workloads.harness.script.marks import Marks
from workloads.harness.script.optimizers import OptimizerTurns
from workloads.harness.script.outcome import Ending
from workloads.harness.script.seen import Seen

GRACE_S = 5.0  # for what a script does when it is stopped; then its process ends
Finish = Callable[[Ending], int]  # writes the record and returns the exit code


class EnoughError(BaseException):
    """The script is measured: raised out of a step, and no mistake of the script's."""


class Measurement:
    """The measurement of one script.

    Attributes:
        seen, taken, turns: what was seen of it so far.
        counted: `optimizer`, `forward` or `mark`; empty before the first step.
        cold: the phase of what comes before the first step's end.
        first_step_s: seconds from the start of the process to the end of the first step.
    """

    def __init__(self, plan: CoursePlan, phases: Phases, readings: Readings, whole: bool) -> None:
        self.seen, self.taken, self.turns = Seen(), Taken(), OptimizerTurns()
        self.counted = ""
        self.first_step_s: float | None = None
        self.hooks = Hooks(self.seen, self.optimizer_stepped, self.model_called)
        self._plan, self._phases, self._readings, self._whole = plan, phases, readings, whole
        self.cold = ExitStack()
        self._marks = Marks(self.seen)
        self._course: Course[None] | None = None
        self._left = 0
        self._asked = 1
        self._finish: Finish | None = None
        self._ending = threading.Lock()
        self._done = False

    def when_done(self, finish: Finish) -> None:
        """Say what is to be done once, when the script is measured or has ended."""
        self._finish = finish

    def optimizer_stepped(self, optimizer: Any) -> None:
        """Take the step of an optimizer."""
        if self.counted == "mark":
            return
        if self.counted != "optimizer":
            self._count("optimizer")
        ends, changed = self.turns.stepped(optimizer)
        if changed:
            self._begin_anew()
        if ends:
            self._stepped()
            if len(self.seen.ends_s) == 1:
                self.hooks.watch_next_call()

    def model_called(self) -> None:
        """Take a call of the model, which is a step of a script that trains nothing."""
        if self.counted in ("", "forward") and not self.seen.backwards:
            if not self.counted:
                self._count("forward")
            self._stepped()

    def step(self) -> None:
        """Take a step that the script marks itself."""
        if not self.hooks.active:
            return
        if self.counted != "mark":
            self._count("mark")
        self._stepped()

    def _count(self, kind: str) -> None:
        """Count steps in this way from now on."""
        self.counted = kind
        del self.seen.ends_s[:], self.seen.epochs_at[:]
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self._course is not None:
            self._course.close()
        self._course, self.taken, self._asked, self._left = None, Taken(), 1, 0

    def _stepped(self) -> None:
        if self._done:
            if not self._whole:
                self._end_firmly(0)  # the script has caught what was to stop it
            self.seen.stepped()
            return
        self.seen.stepped()
        self._left -= 1
        if self._left <= 0:
            self._block_ended()

    def _block_ended(self) -> None:
        """Hand a block to the course and begin the next one; the time in between is none of the script's."""
        if self._course is None:
            self._begin()
            return
        block = self._marks.end(self._asked)
        paused_s = time.perf_counter()
        try:
            self._asked = self._left = self._course.send(block)
        except StopIteration:
            self._enough()
        self.seen.paused_s += time.perf_counter() - paused_s
        self._marks.begin()

    def _begin(self) -> None:
        """Begin to measure: the first step, which is cold, has ended."""
        if self.first_step_s is None:
            self.first_step_s = self._phases.wall_s()
        self.cold.close()
        window = self._readings.window(self._phases)
        self._course = course(self._plan, self.taken, self.seen, self._marks, self._phases, window)
        paused_s = time.perf_counter()
        self._asked = self._left = next(self._course)
        self.seen.paused_s += time.perf_counter() - paused_s
        self._marks.begin()

    def _enough(self) -> None:
        self._done = True
        if self._whole:
            return
        code = self.end(Ending("stopped"))
        if threading.current_thread() is not threading.main_thread():
            self._end_firmly(code)
        threading.Thread(target=self._end_later, args=(code,), daemon=True).start()
        raise EnoughError

    def end(self, ending: Ending) -> int:
        """Make the record, once; return the exit code."""
        with self._ending:
            self._done, finish, self._finish = True, self._finish, None
            self.cold.close()
            if self._course is not None and ending.ended != "stopped":
                self._course.close()
            return finish(ending) if finish else 0

    def _end_later(self, code: int) -> None:
        time.sleep(GRACE_S)
        self._end_firmly(code)

    def _end_firmly(self, code: int) -> None:
        os._exit(code)
