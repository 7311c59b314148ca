"""A script's measurement while it runs: fed by hooks, it decides when it has enough."""

from __future__ import annotations

import ctypes
import os
import threading
import time
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
GRACE_S = 5.0  # for what a script does when it is stopped; then its process ends
AHEAD = 4  # steps of the rank that is furthest, after which all stop: the news needs less than one
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
LONGEST = 16  # steps of optimizers in an iteration
LOOKED_AT = 2 * LONGEST  # later ones change nothing: an optimizer that comes then is one of another phase
Finish = Callable[[Ending], int]  # writes the record and returns the exit code


class EnoughError(BaseException):
    """The script is measured: raised out of a step, and no mistake of the script's."""


class Seat:
    """This process's place among the ranks of a script, which stop after the same step.

    They agree by a file that all have mapped, beside the script's own process group: a rank that left in the
    middle of a step would leave the others waiting for it.
    """

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        self.rank, self.world = rank, world
        self._board = ProgressBoard(folder, world)
        self._board.sit(rank)

    def is_last(self, step: int) -> bool:
        """Note a step that has ended; return whether it is the last one."""
        ranks.stepped(step)
        last = self._board.last
        return 0 < last <= step

    def stop_all(self) -> None:
        """Have all ranks stop, a few steps after the one that the furthest has ended."""
        self._board.stop_after(max(row.steps for row in self._board.rows()) + AHEAD)


class OptimizerTurns:
    """The order in which optimizers step. One alone makes an iteration with each step; several with a period.

    Attributes:
        length: steps of optimizers in an iteration, as far as is known.
        names: of the optimizers' classes, in the order in which they came.
    """

    def __init__(self) -> None:
        self.length = 1
        self.names: dict[str, None] = {}
        self._known: dict[int, int] = {}  # id of an optimizer to its number
        self._order: list[int] = []
        self._place = 0

    @property
    def is_looking(self) -> bool:
        """True while another length may still be found."""
        return len(self._order) < LOOKED_AT

    def stepped(self, optimizer: object) -> tuple[bool, bool]:
        """Note a step; return whether it ends an iteration, and whether their length has changed."""
        number = self._known.get(id(optimizer))
        if number is not None and len(self._order) == LOOKED_AT:  # nothing else for each of millions of steps
            self._place = (self._place + 1) % self.length
            return self._place == 0, False
        changed = False
        if number is None:
            number = self._known[id(optimizer)] = len(self._known)
            self.names[type(optimizer).__name__] = None
        if len(self._known) > 1 and len(self._order) < LOOKED_AT:
            changed = self._look(number)
        elif len(self._order) < LOOKED_AT:
            self._order.append(number)
        self._place = (self._place + 1) % self.length
        return self._place == 0, changed

    def _look(self, number: int) -> bool:
        """Find the period anew; return whether it is another one."""
        self._order.append(number)
        length = period(self._order)
        if length == self.length:
            return False
        self.length = length
        self._place = (len(self._order) - 1) % length
        return True


def period(order: list[int]) -> int:
    """Return the shortest length after which an order repeats itself; 1 if it doesn't.

    The first round need not be whole: an order that has not come round yet has the length of all of it.
    """
    for length in range(1, min(LONGEST, len(order)) + 1):
        if all(one == other for one, other in zip(order, order[length:], strict=False)):
            return length
    return 1


class Measurement:
    """The measurement of one script.

    Attributes:
        observed, taken, turns: what was seen of it so far.
        counted: `optimizer`, `forward` or `mark`; empty before the first step.
        cold: the phase of what comes before the first step's end.
        first_step_s: seconds from the start of the process to the end of the first step.
    """

    def __init__(
        self, plan: SamplingPlan, phases: Phases, readings: Readings, whole: bool, seat: Seat | None = None
    ) -> None:
        self.observed, self.times, self.turns = Observations(), StepTimes(), OptimizerTurns()
        self.counted = ""
        self.first_step_s: float | None = None
        self.hooks = Hooks(self.observed, self.optimizer_stepped, self.model_called)
        self._plan, self._phases, self._readings, self._whole = plan, phases, readings, whole
        self.cold = ExitStack()
        self._timer, self._seat = BlockTimer(self.observed), seat
        self._sampling: SamplingSteps[None] | None = None
        self._left = 0
        self._asked = 1
        self._finish: Finish | None = None
        self._ending = threading.Lock()
        self._done = False
        self._code = 0
        self._early_s = array("d")  # when each of the first steps of optimizers ended
        self._first = (0, 0)  # backward calls and steps at the end of the first step

    def when_done(self, finish: Finish) -> None:
        """Say what is to be done once, when the script is measured or has ended."""
        self._finish = finish

    @property
    def calls(self) -> float:
        """Return how many batches a step of an optimizer sums up."""
        backwards, steps = self.observed.backwards, len(self.observed.ends_s)
        if not steps or "LBFGS" in self.turns.names:  # which calls on one batch, to search along a line
            return 1.0
        if steps > self._first[1]:  # what came before the first step may have been no part of it
            backwards, steps = backwards - self._first[0], steps - self._first[1]
        return max(backwards / (steps * self.turns.length), 1.0)

    def wall_s(self) -> float:
        """Return the seconds since the process started."""
        return self._phases.wall_s()

    def optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Take the step of an optimizer, as a hook of torch."""
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
        """Take a call of the model, which is a step of a script that trains nothing."""
        if self.counted in ("", "forward") and not self.observed.backwards:
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
        self.counted, self.first_step_s = kind, None
        self.observed.forget_steps()
        self._begin_anew()

    def _count_turns_anew(self) -> None:
        """Make steps of the turns of optimizers so far, whose length is another one than it seemed."""
        ends_s, length = self.observed.ends_s, self.turns.length
        before_s = ends_s[0] if ends_s else None
        ends_s[:] = self._early_s[length - 1 : -1 : length]  # without this one, which is noted as any step
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
            self._end_firmly()  # the script has caught what was to stop it
        self.observed.stepped()
        if self._seat is not None and self._seat.is_last(len(self.observed.ends_s)):
            self._enough()
        self._left -= 1
        if self._left <= 0 and not self._done and not self.follows:
            self._block_ended()

    def _block_ended(self) -> None:
        """Hand a block to the course and begin the next one; the time in between is none of the script's."""
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
        """Begin to measure: the first step, which is cold, has ended."""
        if self.first_step_s is None:
            self.first_step_s = self._phases.wall_s()
        self._first = (self.observed.backwards, len(self.observed.ends_s))
        self.cold.close()
        window: AbstractContextManager[Any] = (
            nullcontext() if self._whole else self._readings.window(self._phases)
        )  # which resets peaks
        self._sampling = sample_steps(
            self._plan, self.times, self.observed, self._timer, self._phases, window
        )
        self.observed.pause()
        if uses_gpu():
            self._readings.opened(gpu_in_use())
        self._asked = self._left = next(self._sampling)
        self.observed.go_on()
        self._timer.begin()

    @property
    def world(self) -> int:
        """Return how many ranks train together."""
        return self._seat.world if self._seat is not None else 1

    @property
    def follows(self) -> bool:
        """True on a rank that stops when the first one says so."""
        return self._seat is not None and self._seat.rank > 0

    def _measured(self) -> None:
        """Stop, or go on for the few steps after which all ranks stop together."""
        if self.counted == "forward" and has_optimizer():  # it has only evaluated so far
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
        threading.Thread(target=self._end_later, daemon=True).start()
        raise EnoughError

    def end(self, ending: Ending) -> int:
        """Make the record, once; return the exit code."""
        with self._ending:
            self._done, finish, self._finish = True, self._finish, None
            if finish is None:
                return self._code
            if self.counted == "forward" and self.observed.backwards:  # it trains: those were no steps
                self.observed.forget_steps()
            self.cold.close()
            if self._sampling is not None:
                with suppress(ValueError):  # it is at work: it has come to its end, or in another thread
                    self._sampling.close()
            ranks.ended()
            self._code = finish(ending)
            return self._code

    def end_now(self, ending: Ending) -> None:
        """Make the record and end the process, from any thread."""
        self.end(ending)
        self._end_firmly()

    def _end_later(self) -> None:
        time.sleep(GRACE_S)
        self._end_firmly()

    def _end_firmly(self) -> None:
        """End the process and all that the script has started."""
        end_children()
        os._exit(self._code)


def adopt_orphans() -> None:
    """Have processes that their parents leave behind become this one's children, and can be found."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill all processes that the script has started and left running."""
    with suppress(Exception):
        import psutil

        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
