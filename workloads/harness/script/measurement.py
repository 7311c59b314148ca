"""A script's measurement while it runs: hooks feed it, and it decides when to stop the script."""

from __future__ import annotations

import ctypes
import os
import threading
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.group import ranks
from workloads.harness.group.ranks import ProgressBoard
from workloads.harness.script.hooks import Hooks, has_optimizer
from workloads.harness.script.observations import Observations
from workloads.harness.script.outcome import Ending
from workloads.harness.script.sampling import SamplingPlan, SamplingSteps, StepTimes, sample_steps
from workloads.harness.script.timers import BlockTimer, gpu_in_use, uses_gpu

MOST_STEPS = 2**62
GRACE_S = 5.0  # for a stopped script's own clean-up; then its process ends
AHEAD = 4  # all ranks stop this many steps after the furthest: the message takes less than one step
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
LONGEST = 16  # steps of optimizers in an iteration
LOOKED_AT = 2 * LONGEST  # first steps that decide the period: a later optimizer belongs to another phase
Finish = Callable[[Ending], int]  # writes the record and returns the exit code


class EnoughError(BaseException):
    """Stops a measured script: raised out of one of its steps."""


class Seat:
    """This process's place among the ranks of a script, which stop after the same step.

    They agree through a file that all map, not through the script's process group: if a rank stopped in the
    middle of a step, the others would wait for it.
    """

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        self.rank, self.world = rank, world
        self._board = ProgressBoard(folder, world)
        self._board.sit(rank)

    def is_last(self, step: int) -> bool:
        """Note the end of a step; return whether it is the last step."""
        ranks.stepped(step)
        return 0 < self._board.last <= step

    def stop_all(self) -> None:
        """Stop all ranks, a few steps after the last step of the furthest rank."""
        self._board.stop_after(max(row.steps for row in self._board.rows()) + AHEAD)


class OptimizerTurns:
    """The order in which optimizers step; its period is an iteration. A single optimizer has the period 1.

    Attributes:
        length: steps of optimizers in an iteration, as observed so far.
        names: class names of the optimizers, in the order of their first steps.
    """

    def __init__(self) -> None:
        self.length = 1
        self.names: dict[str, None] = {}
        self._known: dict[int, int] = {}  # number of an optimizer by its id
        self._order: list[int] = []
        self._place = 0

    @property
    def is_looking(self) -> bool:
        """True while the length can still change."""
        return len(self._order) < LOOKED_AT

    def stepped(self, optimizer: object) -> tuple[bool, bool]:
        """Note a step; return whether it ends an iteration, and whether the length has changed."""
        number = self._known.get(id(optimizer))
        if (
            number is not None and not self.is_looking
        ):  # this path is short: it runs in each of millions of steps
            self._place = (self._place + 1) % self.length
            return self._place == 0, False
        changed = False
        if number is None:
            number = self._known[id(optimizer)] = len(self._known)
            self.names[type(optimizer).__name__] = None
        if self.is_looking:
            self._order.append(number)
            if len(self._known) > 1 and (length := period(self._order)) != self.length:
                self.length, self._place, changed = length, (len(self._order) - 1) % length, True
        self._place = (self._place + 1) % self.length
        return self._place == 0, changed


def period(order: list[int]) -> int:
    """Return the shortest length after which an order repeats itself; 1 if it doesn't.

    The period of an order that has not repeated yet is its whole length.
    """
    for length in range(1, min(LONGEST, len(order)) + 1):
        if all(one == other for one, other in zip(order, order[length:], strict=False)):
            return length
    return 1


class Measurement:
    """The measurement of one script.

    Attributes:
        counted: `optimizer`, `forward` or `mark`; empty before the first step.
        trouble: an error of the measurement itself; None if all went well.
        cold: the phase before the end of the first step.
        first_step_s: seconds from the start of the process to the end of the first step.
        finish: called once, when the script is measured or has ended.
    """

    def __init__(
        self, plan: SamplingPlan, phases: Phases, readings: Readings, whole: bool, seat: Seat | None = None
    ) -> None:
        self.observed, self.times, self.turns = Observations(), StepTimes(), OptimizerTurns()
        self.counted = ""
        self.trouble: Exception | None = None
        self.first_step_s: float | None = None
        self.hooks = Hooks(self.observed, self.optimizer_stepped, self.model_called, self.failed)
        self.plan, self.phases, self.readings, self._whole = plan, phases, readings, whole
        self.cold = ExitStack()
        self._timer, self._seat = BlockTimer(self.observed), seat
        self._sampling: SamplingSteps[None] | None = None
        self._left = 0
        self._asked = 1
        self.finish: Finish | None = None
        self._ending = threading.Lock()
        self._done = False
        self._code = 0
        self._early_s = array("d")  # the ends of the first steps of optimizers
        self._first = (0, 0)  # backward calls and steps at the end of the first step

    @property
    def calls(self) -> float:
        """Batches that a step of an optimizer accumulates."""
        backwards, steps = self.observed.backwards, len(self.observed.ends_s)
        if not steps or "LBFGS" in self.turns.names:  # its line search calls several times on one batch
            return 1.0
        if steps > self._first[1]:  # calls before the first step may belong to no step
            backwards, steps = backwards - self._first[0], steps - self._first[1]
        return max(backwards / (steps * self.turns.length), 1.0)

    def optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count the step of an optimizer; a hook of torch."""
        if self.counted == "mark" or not self.hooks.active:
            return
        if self.counted != "optimizer":
            self._count("optimizer")
        ends, changed = self.turns.stepped(optimizer)
        if self.turns.is_looking:
            self._early_s.append(self.observed.now_s())
        if changed:
            self._count_turns_anew()
        if ends:
            self._stepped()
            if len(self.observed.ends_s) == 1:
                self.hooks.watch_next_call()

    def model_called(self) -> None:
        """Count the call of the model before this one: a step of a script that trains nothing."""
        if self.counted in ("", "forward") and not self.observed.backwards:
            if not self.counted:
                self._count("forward")
            self._stepped()

    def failed(self, error: Exception) -> None:
        """Note an error of the measurement itself: it ends a measured script, and a whole one goes on."""
        self.trouble = self.trouble or error
        if not self._whole:
            self._enough()

    def step(self) -> None:
        """Count a step that the script marks itself."""
        if self.hooks.active:
            if self.counted != "mark":
                self._count("mark")
            self._stepped()

    def _count(self, kind: str) -> None:
        """Count steps of this kind from now on."""
        self.counted, self.first_step_s = kind, None
        self.observed.forget_steps()
        self._begin_anew()

    def _count_turns_anew(self) -> None:
        """Group the optimizers' steps so far by the new length of an iteration."""
        ends_s, length = self.observed.ends_s, self.turns.length
        before_s = ends_s[0] if ends_s else None
        ends_s[:] = self._early_s[length - 1 : -1 : length]  # without the current step, which is noted later
        if self.first_step_s is not None and before_s is not None:
            first_s = ends_s[0] if ends_s else self._early_s[-1]
            self.first_step_s += first_s - before_s
        self.observed.losses[:] = self.observed.losses[::length]
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self._sampling is not None:
            self._sampling.close()
        self._sampling, self.times, self._asked, self._left = None, StepTimes(), 1, 0

    def _stepped(self) -> None:
        if self._done and not self._whole:
            self._end_firmly()  # the script has caught EnoughError
        self.observed.stepped()
        if self._seat is not None and self._seat.is_last(len(self.observed.ends_s)):
            self._enough()
        self._left -= 1
        if self._left <= 0 and not self._done and not self.follows:
            self._block_ended()

    def _block_ended(self) -> None:
        """Hand a block to the sampling and begin the next one; the script's clock stands in between."""
        if self._sampling is None:
            self._begin()
            return
        block = self._timer.end(self._asked)
        self.observed.pause()
        try:
            self._asked = self._left = self._sampling.send(block)
        except StopIteration:
            self._measured()
        finally:
            self.observed.go_on()
        self._timer.begin()

    def _begin(self) -> None:
        """Begin to measure after the first step, which is cold."""
        if self.first_step_s is None:
            self.first_step_s = self.phases.wall_s()
        self._first = (self.observed.backwards, len(self.observed.ends_s))
        self.cold.close()
        window: AbstractContextManager[Any] = nullcontext()
        if not self._whole:
            window = self.readings.window(self.phases)  # it resets peaks
        self._sampling = sample_steps(self.plan, self.times, self.observed, self._timer, self.phases, window)
        self.observed.pause()
        if uses_gpu():
            self.readings.opened(gpu_in_use())
        self._asked = self._left = next(self._sampling)
        self.observed.go_on()
        self._timer.begin()

    @property
    def world(self) -> int:
        """Number of ranks that train together."""
        return self._seat.world if self._seat is not None else 1

    @property
    def follows(self) -> bool:
        """True on a rank that stops when the first one says so."""
        return self._seat is not None and self._seat.rank > 0

    def _measured(self) -> None:
        """Stop, alone or with all ranks after a few more steps."""
        if self.counted == "forward" and has_optimizer():  # the script has only evaluated so far
            self._begin_anew()
        elif self._whole:
            self._done = True
        elif self._seat is not None and self._seat.world > 1:
            self._seat.stop_all()
            self._left = MOST_STEPS
        else:
            self._enough()

    def _enough(self) -> None:
        """Make the record and stop the script."""
        self.end(Ending("stopped"))
        if threading.current_thread() is not threading.main_thread():
            self._end_firmly()
        deadline = threading.Timer(GRACE_S, self._end_firmly)
        deadline.daemon = True
        deadline.start()
        raise EnoughError

    def end(self, ending: Ending) -> int:
        """Make the record, once; return the exit code."""
        with self._ending:
            self._done, finish, self.finish = True, self.finish, None
            if finish is None:
                return self._code
            self._count_last_call(ending)
            self.cold.close()
            if self._sampling is not None:
                with suppress(ValueError):  # the generator is running: at its end, or in another thread
                    self._sampling.close()
            ranks.ended()
            self._code = finish(ending)
            return self._code

    def _count_last_call(self, ending: Ending) -> None:
        """Count the last call of the model, which ends with the script, if its calls are steps at all."""
        observed = self.observed
        if self.counted not in ("", "forward"):
            return
        if observed.backwards:  # it trains: the calls were not steps
            observed.forget_steps()
        elif observed.forwards and ending.ended == "finished":
            self.counted = "forward"
            observed.stepped()

    def end_now(self, ending: Ending) -> None:
        """Make the record and end the process, from any thread."""
        self.end(ending)
        self._end_firmly()

    def _end_firmly(self) -> None:
        """End this process and all processes that the script has started."""
        end_children()
        os._exit(self._code)


def adopt_orphans() -> None:
    """Make processes whose parents end this process's children, so that `end_children` finds them."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill all processes that the script has started and left running."""
    with suppress(Exception):
        import psutil

        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
