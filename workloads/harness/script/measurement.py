"""A script's measurement while it runs: hooks feed it, and it decides when to stop the script."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from threading import get_ident
from typing import Any, NoReturn

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.group import ranks
from workloads.harness.group.ranks import ProgressBoard
from workloads.harness.script.hooks import Hooks, has_optimizer
from workloads.harness.script.instances import DeclaredStep, Instances
from workloads.harness.script.loaders import LoaderPass
from workloads.harness.script.observations import LOSSES, Observations
from workloads.harness.script.outcome import Ending
from workloads.harness.script.rests import Rests, unwatched_step
from workloads.harness.script.sampling import SamplingPlan, SamplingSteps, StepTimes, sample_steps
from workloads.harness.script.step_model import StepEvidence, StepModel, step_model
from workloads.harness.script.timers import BlockTimer, gpu_in_use, uses_gpu
from workloads.harness.script.turns import OptimizerTurns, iteration_ends

MOST_STEPS = 2**62
GRACE_S = 5.0  # for a stopped script's own clean-up; then come its exit handlers
EXIT_S = 10.0  # for exit handlers, which can upload something; then the process ends
AHEAD = 4  # all ranks stop this many steps after the furthest: the message takes less than one step
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


class Measurement:
    """The measurement of one script.

    Attributes:
        counted: `optimizer`, `forward`, `mark`, `backward` or `loader`; empty before the first step.
        trouble: an error of the measurement itself; None if all went well.
        cold: the phase before the end of the first step.
        first_step_s: seconds from the start of the process to the end of the first step.
        finish: called once, when the script is measured or has ended.
    """

    def __init__(
        self,
        plan: SamplingPlan,
        phases: Phases,
        readings: Readings,
        whole: bool,
        seat: Seat | None = None,
        declared: DeclaredStep | None = None,
    ) -> None:
        self.observed, self.times, self.turns = Observations(), StepTimes(), OptimizerTurns()
        self.optimizers, self.declared = Instances(), declared
        self.counted, self.observed.counts_backwards = (
            "",
            declared is not None and declared.kind == "backward",
        )
        self.trouble: Exception | None = None
        self.first_step_s: float | None = None
        self.hooks = Hooks(self.observed, self, declared.kind if declared else "")
        self.plan, self.phases, self.readings, self._whole = plan, phases, readings, whole
        self.cold = ExitStack()
        self._timer, self._seat = BlockTimer(self.observed), seat
        self._sampling: SamplingSteps[None] | None = None
        self._left = 0
        self._asked = 1
        self.finish: Finish | None = None
        self._ending, self._leaving = threading.Lock(), threading.Lock()
        self._done = False
        self._code = 0
        self._only: weakref.ref[Any] | None = (
            None  # the only optimizer, if the next step can take the short path
        )
        # Its thread, and the steps that were done when the short path began.
        self._thread, self._only_from = 0, 0
        self._rests = Rests(self.hooks, self.observed)
        self._own_step, self._own_due = self.hooks.own(self._optimizer_stepped), self.hooks.own(self._due)
        self._logged_s, self._logged_backwards = array("d"), array("q")  # at the steps in the order of turns
        self._within: list[int] = []  # optimizers that stepped within the present backward call
        self._within_calls: dict[
            int, list[int]
        ] = {}  # the same of the first backward calls, by the first of them
        self._data: dict[int, int] = {}  # numbers of the loaders' data sets

    def step_model(self, has_ended: bool = False) -> StepModel:
        """Return the model of a step by all evidence so far."""
        self._log_only()
        return step_model(
            StepEvidence(
                self.counted,
                self.declared,
                self.optimizers,
                self.turns,
                self._within_calls,
                self._logged_backwards,
                self.observed.backwards_at,
                has_ended,
            )
        )

    @property
    def _only_backward(self) -> bool:
        """True if all optimizers step within backward calls, each of which is a step."""
        return self.declared is None and len(self.turns.keys) == 1

    @property
    def _only_optimizer(self) -> bool:
        """True if there is one optimizer, each step of which is a step, outside backward calls."""
        return self.counted == "optimizer" and self._only_backward and isinstance(self.turns.keys[0], int)

    @property
    def is_open(self) -> bool:
        """True if the order of optimizers has not shown itself yet."""
        turns = self.turns.turns
        return (
            self.counted == "optimizer" and self.declared is None and bool(turns) and not turns[-1].is_settled
        )

    def optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count the step of an optimizer; a hook of torch.

        The step of the only optimizer takes a short path, which leaves the order of turns for later.
        """
        observed = self.observed
        if (
            self._only is None
            or self._only() is not optimizer
            or observed.loading
            or get_ident() != self._thread
            or self._graph_task() >= 0
        ):
            self._own_step(optimizer)
            return
        observed.ends_s.append(time.perf_counter() - observed.paused_s)
        observed.backwards_at.append(observed.backwards)
        observed.phase_left -= 1
        self._left -= 1
        if self._left <= 0 or observed.phase_left <= 0:
            self._own_due()

    def _due(self) -> None:
        """End a block, or a phase in which the watches of further steps rest or wake."""
        observed = self.observed
        self._left -= observed.count_unseen()
        if observed.phase_left <= 0:
            self._rests.phase_ended()
        if self._left <= 0:
            self._block_ended()
        if observed.unseen_backwards and self._only is not None:
            steps = min(self._left, observed.phase_left)
            note = unwatched_step(
                observed, self._only, self._graph_task, steps, self._own_step, self._own_due
            )
            self.hooks.rest(note)

    def _optimizer_stepped(self, optimizer: Any) -> None:
        """Count the step of an optimizer; try the short path for the next one."""
        unseen = self.observed.unseen_backwards  # of this step, if it is like those before
        self._leave_short_path()
        self.observed.backwards += unseen
        number = self.optimizers.number(optimizer)
        if _is_in_backward():
            self._within.append(number)
            self.observed.counts_backwards = True
            return
        self._turned(number)
        if (
            self._only_optimizer
            and self._seat is None
            and self.observed.calls is None
            and len(self.observed.losses) >= LOSSES
        ):
            self._only, self._thread, self._only_from = (
                weakref.ref(optimizer),
                get_ident(),
                len(self.observed.ends_s),
            )
            self._graph_task = _torch()._C._current_graph_task_id

    def _log_only(self) -> None:
        """Log the steps of the short path in the order of turns."""
        self._left -= self.observed.count_unseen()
        if self._only is None:
            return
        begin, end = self._only_from, len(self.observed.ends_s)
        end = begin + self.turns.stepped_again(end - begin)
        self.observed.optimizer_steps += end - begin
        self._logged_s += self.observed.ends_s[begin:end]
        self._logged_backwards += self.observed.backwards_at[begin:end]
        self._only_from = len(self.observed.ends_s)

    def _leave_short_path(self) -> None:
        self._left -= self.observed.count_unseen()
        self._rests.wake()
        self._log_only()
        self._only = None

    def backward_begins(self) -> None:
        """Count the backward call before this one, if optimizers stepped in it; one that is declared is a step."""
        if self._within:
            within, self._within = self._within, []
            self.observed.counts_backwards = self.declared is not None and self.declared.kind == "backward"
            self._within_calls.setdefault(within[0], within)
            self._turned(("backward", within[0]))
        if self.declared and self.declared.kind == "backward" and self.observed.backwards:
            self._declared_step("backward")

    def model_called(self) -> None:
        """Count the call of the model before this one: a step of a script that trains nothing."""
        if self.declared is not None:
            if self.declared.kind == "forward":
                self._declared_step("forward")
        elif self.counted in ("", "forward") and not self.observed.backwards:
            if not self.counted:
                self._count("forward")
            self._left -= self.observed.count_unseen()
            self._stepped()
            self.observed.calls_left = 0 if self._seat else max(self._left - 1, 0)

    def batch_asked(self, loader_pass: LoaderPass) -> None:
        """Count the batch before this one as a step, if batches of its loader are declared to be steps."""
        assert self.declared is not None
        number = self._data.setdefault(loader_pass.data, len(self._data) + 1)
        if number == (self.declared.nth or 1):
            self._declared_step("loader")

    def _declared_step(self, kind: str) -> None:
        if self.counted != kind:
            self._count(kind)
        self._stepped()

    def _turned(self, key: int | tuple[str, int]) -> None:
        """Count the step of an optimizer, or of all that step within a backward call."""
        if self.declared is not None and self.declared.kind != "optimizer":
            return
        if self.counted == "mark":
            return
        if self.counted != "optimizer" and self.declared is None:
            self._count("optimizer")
        if not self.turns.is_full:
            self.observed.optimizer_steps += 1
            self._logged_s.append(self.observed.now_s())
            self._logged_backwards.append(self.observed.backwards)
        ends, changed = self.turns.stepped(key)
        if self.declared is not None:
            numbers = [key] if isinstance(key, int) else self._within_calls[key[1]]
            if any(self.optimizers.is_declared(number, self.declared) for number in numbers):
                self._declared_step("optimizer")
            return
        if changed:
            self._count_turns_anew()
        if ends:
            self._stepped()

    def failed(self, error: Exception) -> None:
        """Note an error of the measurement itself: it ends a measured script, and a whole one goes on."""
        self.trouble = self.trouble or error
        if not self._whole:
            self._enough()

    def step(self) -> None:
        """Count a step that the script marks itself."""
        if self.hooks.active and (self.declared is None or self.declared.kind == "mark"):
            with self.hooks.lock:
                if self.counted != "mark":
                    self._count("mark")
                self._stepped()

    def _count(self, kind: str) -> None:
        """Count steps of this kind from now on."""
        self._leave_short_path()
        self.counted, self.first_step_s = kind, None
        self.observed.forget_steps()
        self._begin_anew()

    def _count_turns_anew(self) -> None:
        """Group the optimizers' steps so far by their new order, without the present one, which is noted later."""
        before_s = self.observed.ends_s[0] if self.observed.ends_s else None
        present = len(self.turns.order) - 1
        ends = [place for place in iteration_ends(self.turns.order, self.turns.turns) if place < present]
        self.observed.count_anew(ends, self._logged_s, self._logged_backwards)
        if self.first_step_s is not None and before_s is not None:
            first_s = self.observed.ends_s[0] if ends else self._logged_s[-1]
            self.first_step_s += first_s - before_s
        self.hooks.look()
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self._sampling is not None:
            self._sampling.close()
        self._sampling, self.times, self._asked, self._left = None, StepTimes(), 1, 0
        self.observed.calls_left = 0

    def _stepped(self) -> None:
        if self._done and not self._whole:
            self.leave()  # the script has caught EnoughError
        looked = self.observed.calls is not None
        self.observed.stepped()
        if looked and self.observed.calls is None:
            self.hooks.stop_looking()
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
        self.cold.close()
        window: AbstractContextManager[Any] = nullcontext()
        if not self._whole:
            window = self.readings.window(self.phases)  # it resets peaks
        self._sampling = sample_steps(
            self.plan, self.times, self.observed, self._timer, self.phases, window, lambda: self.is_open
        )
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
        if (
            self.counted == "forward" and not self.declared and has_optimizer()
        ):  # the script has only evaluated so far
            self._begin_anew()
        elif self._whole:
            self._done, self._left = True, MOST_STEPS
        elif self._seat is not None and self._seat.world > 1:
            self._seat.stop_all()
            self._left = MOST_STEPS
        else:
            self._enough()

    def _enough(self) -> None:
        """Make the record and stop the script."""
        self.end(Ending("stopped"))
        if threading.current_thread() is not threading.main_thread():
            self.leave()
        _after(GRACE_S, self.leave)
        raise EnoughError

    def end(self, ending: Ending) -> int:
        """Make the record, once; return the exit code."""
        with self._ending:
            self._done, finish, self.finish = True, self.finish, None
            self._leave_short_path()
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
        """Count the last call of the model, or the last backward call, which ends with the script, if it is a step."""
        observed = self.observed
        if ending.ended == "finished" and (
            self.counted == "backward" or (self._within and self._only_backward)
        ):
            observed.stepped()
        if self.counted not in ("", "forward") or self.declared is not None:
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

    def leave(self) -> NoReturn:
        """Run the script's exit handlers and end the process, from any thread."""
        if not self.run_exit_handlers():
            threading.Event().wait(EXIT_S)  # another thread runs them
        self._end_firmly()

    def run_exit_handlers(self) -> bool:
        """Run the script's exit handlers, or end the process if they take longer than `EXIT_S`.

        Return False if another thread runs them.
        """
        if not self._leaving.acquire(blocking=False):
            return False
        _after(EXIT_S, self._end_firmly)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, or replaced by the script
                stream.flush()
        return True

    def _end_firmly(self) -> NoReturn:
        """End this process and all processes that the script has started."""
        end_children()
        os._exit(self._code)


def _is_in_backward() -> bool:
    """True if this thread computes gradients, as in a hook of a parameter."""
    return bool(_torch()._C._current_graph_task_id() >= 0)


def _torch() -> Any:
    return sys.modules["torch"]


def _after(seconds: float, call: Callable[[], object]) -> None:
    """Call something from a thread after some seconds, if the process is still there."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def end_children() -> None:
    """Kill all processes that the script has started and left running."""
    with suppress(Exception):
        import psutil

        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
