"""Notes that hooks take while a script runs: counts and references, never a wait for a device."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

from workloads.harness.script.amounts import (
    MOST_AMOUNTS,
    Amounts,
    amounts_of_loaders,
    amounts_of_step,
    amounts_of_steps,
)
from workloads.harness.script.calls import ModelCalls, amounts_of_input
from workloads.harness.script.loaders import LoaderPass, Loaders, LoaderUse, training_loaders

LOSSES = 64  # of the first steps, compared with other machines: a fall shows in this many
LOOKED_AT = 4  # steps whose calls of models are looked at


@dataclass(slots=True)
class Observations:
    """Notes of a script's run so far.

    Attributes:
        ends_s: end of each step, on the clock of `time.perf_counter` less the measurement's own time.
        backwards_at: backward calls before each of these ends.
        paused_s: seconds of the measurement's own time; `stands_s` is the clock's time while it stands.
        losses: detached tensors of the first backward call of each of the first steps.
        losses_at: for each of them, the steps of optimizers before it.
        loss_due: the next backward call is the first of its step.
        counts_backwards: the next backward call can end a step.
        loader_s: seconds that the script's main process waited for its loaders, while this was watched.
        phase_left: steps until the watches rest or wake.
        unseen_backwards: backward calls of each step, while their watch rests; else 0.
        rest_share: share of the time that the script waits for loaders, while this watch rests; else None.
        has_new_pass: a pass over a loader began since this was last set to False.
        loading: the thread that waits for a batch of a loader; else 0.
        calls: of models in the present step; None if they are not looked at.
        has_missed: calls of the present step that came before the look at them.
        amounts: of the steps that were looked at, and how often.
        calls_left: further calls of the model that are steps and need no other look, without a training.
        inputs_again: inputs like the last one of `input_came`, which are not in `amounts` yet.
        forwards: outermost calls of the model that have begun.
    """

    ends_s: array[float] = field(default_factory=lambda: array("d"))
    backwards_at: array[int] = field(default_factory=lambda: array("q"))
    paused_s: float = 0.0
    stands_s: float | None = None
    losses: list[Any] = field(default_factory=list)
    losses_at: list[int] = field(default_factory=list)
    loss_due: bool = True
    optimizer_steps: int = 0
    counts_backwards: bool = False
    backwards: int = 0
    first_backward_s: float | None = None
    loader_s: float = 0.0
    phase_left: int = 0
    unseen_backwards: int = 0
    rest_share: float | None = None
    _rest_from_s: float = 0.0
    has_new_pass: bool = False
    loading: int = 0
    loaders: Loaders = field(default_factory=Loaders)
    calls: ModelCalls | None = None
    has_missed: bool = False
    amounts: Counter[Amounts] = field(default_factory=Counter)
    calls_left: int = 0
    inputs_again: int = 0
    _input: Amounts | None = None
    forwards: int = 0
    compiled: bool = False
    imported: bool = False
    awaited: LoaderPass | None = None

    @property
    def position(self) -> str:
        """Such as `in step 3`."""
        return f"in step {len(self.ends_s) + 1}" if self.ends_s else "before its first step"

    def now_s(self) -> float:
        """Return seconds on the script's clock, which stands while the measurement works."""
        return time.perf_counter() - self.paused_s if self.stands_s is None else self.stands_s

    def pause(self) -> None:
        self.stands_s = self.now_s()

    def go_on(self) -> None:
        assert self.stands_s is not None
        self.paused_s, self.stands_s = time.perf_counter() - self.stands_s, None

    def rest(self, waited_share: float, backwards: int, steps: int) -> None:
        self.rest_share, self.unseen_backwards, self.phase_left = waited_share, backwards, steps
        self._rest_from_s = self.now_s()

    def count_unseen(self) -> int:
        """Count the backward calls of a rest so far; return its steps."""
        steps = len(self.ends_s) - len(self.backwards_at)
        for _ in range(steps):
            self.backwards += self.unseen_backwards
            self.backwards_at.append(self.backwards)
        self.phase_left -= steps
        return steps

    def end_rest(self) -> None:
        self.loader_s, self.rest_share = self.waited_s(), None

    def waited_s(self) -> float:
        """Return the seconds that the script waited for its loaders, those of a rest by the share before it."""
        if self.rest_share is None:
            return self.loader_s
        return self.loader_s + self.rest_share * (self.now_s() - self._rest_from_s)

    def stepped(self) -> None:
        if self.loading == get_ident():
            self.loading_failed()
        self.ends_s.append(time.perf_counter() - self.paused_s)
        self.backwards_at.append(self.backwards)
        self.loss_due = True
        if self.calls is not None:
            amounts = self.calls.step_ended()
            if not self.has_missed:
                self.amounts[amounts] += 1
            self.has_missed = False
            if self.amounts.total() >= LOOKED_AT:
                self.calls = None

    def backward(self, losses: Sequence[Any], plain: Any) -> None:
        """Note a backward call before it begins.

        `plain` is its only loss before any scaling; None if there are several, or if it is more than a
        number.
        """
        if self.first_backward_s is None:
            self.first_backward_s = self.now_s()
        if self.loss_due and plain is not None and len(self.losses) < LOSSES:
            self.losses.append(plain.detach().clone())
            self.losses_at.append(self.optimizer_steps)
        self.loss_due = False
        if self.calls is not None:
            self.calls.backward(losses)
        self.backwards += 1

    def input_came(self, tensor: Any) -> bool:
        """Note a model's input, without a training; return whether it is counted."""
        self._count_inputs()
        self._input = amounts_of_input(tensor)
        if self._input not in self.amounts and len(self.amounts) >= MOST_AMOUNTS:
            self._input = None
            return False
        self.amounts[self._input] += 1
        return True

    def _count_inputs(self) -> None:
        """Count the further inputs like the last one: to count each would cost most of a short path."""
        if self._input is not None:
            self.amounts[self._input] += self.inputs_again
        self.inputs_again = 0

    def look(self) -> None:
        self.amounts.clear()
        self._input, self.inputs_again = None, 0
        self.calls, self.has_missed = ModelCalls(), True

    def count_anew(self, ends: Sequence[int], logged_s: Sequence[float], backwards: Sequence[int]) -> None:
        """Group earlier steps of optimizers to new steps, of which each loss is the first.

        Args:
            ends: places of the steps of optimizers that end a step.
            logged_s, backwards: the time of each step of an optimizer, and the backward calls before it.
        """
        self.ends_s[:] = array("d", (logged_s[place] for place in ends))
        self.backwards_at[:] = array("q", (backwards[place] for place in ends))
        firsts: dict[int, int] = {}
        for number, at in enumerate(self.losses_at):
            firsts.setdefault(sum(end < at for end in ends), number)
        self.losses[:] = [self.losses[number] for number in firsts.values()]
        self.losses_at[:] = [self.losses_at[number] for number in firsts.values()]
        self.loss_due = len(ends) not in firsts
        self.loaders.count_anew()

    def forget_steps(self) -> None:
        del self.ends_s[:], self.backwards_at[:]
        self.loaders.count_anew()

    def loading_failed(self) -> None:
        self.loading = 0
        if self.awaited is not None:
            self.loader_ended(self.awaited)

    def batch_came(self, loader_pass: LoaderPass, batch: Any, batches: int | None) -> None:
        self.loaders.batch_came(loader_pass, batch, batches, len(self.ends_s))

    def loader_ended(self, loader_pass: LoaderPass) -> None:
        self.loaders.ended(loader_pass, len(self.ends_s))

    @property
    def training_loader(self) -> LoaderUse | None:
        """None if there is none, or several."""
        loaders = training_loaders(self.loaders.uses)
        return loaders[0] if len(loaders) == 1 else None

    @property
    def epochs_at(self) -> Sequence[int]:
        loader = self.training_loader
        return loader.epochs_at if loader else ()

    @property
    def epoch_steps(self) -> int | None:
        loader = self.training_loader
        return loader.steps_of_epoch if loader else None

    def amounts_of_step(self, declared: int | None) -> Amounts:
        self._count_inputs()
        loaders = amounts_of_loaders(training_loaders(self.loaders.uses))
        return amounts_of_step(declared, loaders, amounts_of_steps(self.amounts))
