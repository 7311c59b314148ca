"""What hooks note while a script runs: counts and references, never a wait for a device."""

from __future__ import annotations

import time
import weakref
from array import array
from dataclasses import dataclass, field
from typing import Any

_BEGUN = "_gridbench_begun"  # of a loader's iterator: the steps that were done at its first batch
_STEPPED = "_gridbench_stepped"  # of one: its batches and the steps when a step was first made of it
FIRST_BATCHES = 100  # of a loader, at which its length is read: once a step was made from it
LOSSES = 64  # of the first steps, held against those of other machines: a fall shows in so many
_INTEGERS = ("torch.int64", "torch.int32", "torch.int16", "torch.uint8")


@dataclass(slots=True)
class Observations:
    """Notes of a script's run so far.

    Attributes:
        ends_s: when each step ended, on the clock of `time.perf_counter` less what we took ourselves.
        paused_s: seconds that we took; `stands_s` is where the clock stands while we take more.
        losses: tensors, detached, of the first backward call of each of the first steps.
        loss_due: whether the next backward call is the first of its step.
        backwards: backward calls so far; `first_backward_s` is when the first came.
        loader_s: seconds that the script's main process waited for its loaders.
        loading: the thread in which a loader is making a batch, perhaps by modules of its own; else 0.
        shape: of the first tensor that went into the model; `is_tokens` if it holds ids in 2 dimensions.
        loaded: the same of the last batch of a loader, for models whose calls we don't see.
        epoch_batches: batches of an epoch, by the loader that steps were last made from.
        step_batches: batches of that loader in a step; None where they were not counted.
        epochs_at: how many steps were done each time that such a loader came to its end.
        epoch_steps: steps from the beginning of one to its end, where one was observed.
        counts: how often steps began to be counted anew.
        forwards: outermost calls of the model.
        compiled: the script has called `torch.compile`.
    """

    ends_s: array[float] = field(default_factory=lambda: array("d"))
    paused_s: float = 0.0
    stands_s: float | None = None
    losses: list[Any] = field(default_factory=list)
    loss_due: bool = True
    backwards: int = 0
    first_backward_s: float | None = None
    loader_s: float = 0.0
    loading: int = 0
    shape: tuple[int, ...] = ()
    is_tokens: bool = False
    loaded: tuple[int, ...] = ()
    loaded_tokens: bool = False
    epoch_batches: int | None = None
    step_batches: float | None = None
    epochs_at: list[int] = field(default_factory=list)
    epoch_steps: int | None = None
    counts: int = 0
    forwards: int = 0
    compiled: bool = False
    imported: bool = False
    _looked: int = 0  # steps at the last batch
    _source: Any = None  # a weak reference to the iterator that steps were last made from
    _source_begun: tuple[int, int] = (0, 0)

    def now_s(self) -> float:
        """Return seconds on the script's clock, which stands still while we measure."""
        return time.perf_counter() - self.paused_s if self.stands_s is None else self.stands_s

    def pause(self) -> None:
        """Let the script's clock stand."""
        self.stands_s = self.now_s()

    def go_on(self) -> None:
        """Let the script's clock go on from where it stands."""
        assert self.stands_s is not None
        self.paused_s, self.stands_s = time.perf_counter() - self.stands_s, None

    def stepped(self) -> None:
        """Note the end of a step."""
        self.ends_s.append(time.perf_counter() - self.paused_s)
        self.loss_due = True

    def backward(self, loss: Any) -> None:
        """Note a backward call of a loss, as the script made it."""
        self.backwards += 1
        if self.first_backward_s is None:
            self.first_backward_s = self.now_s()
        if self.loss_due and len(self.losses) < LOSSES:
            self.losses.append(loss.detach().clone())
        self.loss_due = False

    def forget_steps(self) -> None:
        """Begin to count steps anew, in another way."""
        del self.ends_s[:], self.epochs_at[:]
        self.counts += 1

    def batch_came(self, iterator: Any, batch: Any) -> None:
        """Note a batch of a loader: steps are made from it if one was made since its first batch."""
        begun = self._begun(iterator)
        steps = len(self.ends_s)
        if begun is None:
            self._end_left_loader()
            setattr(iterator, _BEGUN, (self.counts, steps))
            setattr(iterator, _STEPPED, None)
            tensor = first_tensor(batch)
            if tensor is not None:
                self.loaded, self.loaded_tokens = tuple(tensor.shape), is_token_ids(tensor)
        elif begun < steps:
            self.epoch_batches = _length(iterator)
            self._source, self._source_begun = weakref.ref(iterator), getattr(iterator, _BEGUN)
            if steps != self._looked:
                self._count_batches(iterator, steps - begun)
        self._looked = steps

    def _count_batches(self, iterator: Any, steps: int) -> None:
        """Note the batches in a step: between two that have both just ended, for a script may read ahead."""
        batches, first = iterator._num_yielded - 1, getattr(iterator, _STEPPED, None)
        if first is None:
            setattr(iterator, _STEPPED, (batches, steps))
            self.step_batches = self.step_batches or batches / steps
        elif steps > first[1]:
            self.step_batches = (batches - first[0]) / (steps - first[1])

    def _end_left_loader(self) -> None:
        """Note the end of an epoch that the script has left by a break: its iterator is gone."""
        if self._source is None or self._source() is not None:
            return
        counts, begun = self._source_begun
        if counts == self.counts and begun < len(self.ends_s):
            self.epochs_at.append(len(self.ends_s))
            self.epoch_steps = len(self.ends_s) - begun
        self._source = None

    def loader_ended(self, iterator: Any) -> None:
        """Note the end of a loader: of an epoch, if steps were made from it."""
        begun = self._begun(iterator)
        if begun is not None and begun < len(self.ends_s):
            self.epochs_at.append(len(self.ends_s))
            self.epoch_steps = len(self.ends_s) - begun
        setattr(iterator, _BEGUN, None)
        if self._source is not None and self._source() is iterator:
            self._source = None

    def _begun(self, iterator: Any) -> int | None:
        """Return how many steps were done at a loader's first batch; None before it."""
        noted = getattr(iterator, _BEGUN, None)
        if noted is None:
            return None
        counts, steps = noted
        return int(steps) if counts == self.counts else 0

    def steps_of_epoch(self, calls: float) -> int | None:
        """Return the steps of an epoch, each of so many backward calls; None where no loader tells."""
        if self.epoch_steps is not None or self.epoch_batches is None:
            return self.epoch_steps
        return max(round(self.epoch_batches / (self.step_batches or calls)), 1)

    def batches_of_step(self, calls: float) -> float:
        """Return the batches of a step that has so many backward calls: several may be of one batch.

        Where the model gets other batches than the loader makes, each call has its own.
        """
        if self.step_batches and (not self.shape or self.shape[:1] == self.loaded[:1]):
            return self.step_batches
        return calls

    @property
    def samples(self) -> int | None:
        """Samples in a call of the model, by what went in; None where nothing was seen to go in."""
        shape = self.shape or self.loaded
        return shape[0] if shape else None

    @property
    def tokens(self) -> int | None:
        """Tokens in a call of the model; None where the input is no token ids."""
        shape, tokens = (self.shape, self.is_tokens) if self.shape else (self.loaded, self.loaded_tokens)
        return shape[0] * shape[1] if tokens else None


def _length(iterator: Any) -> int | None:
    """Return the batches of an epoch of a loader; None where it doesn't tell."""
    try:
        return len(iterator._index_sampler)
    except Exception:
        return None


def first_tensor(thing: Any, depth: int = 3) -> Any:
    """Return the first tensor with dimensions in a batch or in arguments; None if there is none."""
    if hasattr(thing, "shape") and hasattr(thing, "dtype"):
        return thing if len(thing.shape) else None
    if depth == 0:
        return None
    parts = thing.values() if hasattr(thing, "values") and callable(thing.values) else thing
    if isinstance(parts, (str, bytes)) or not hasattr(parts, "__iter__"):
        return None
    if not isinstance(thing, (list, tuple, dict)) and not hasattr(thing, "values"):
        return None
    for part in parts:
        if (found := first_tensor(part, depth - 1)) is not None:
            return found
    return None


def is_token_ids(tensor: Any) -> bool:
    """True if a tensor is whole numbers in two dimensions, as batches of token ids are."""
    return len(tensor.shape) == 2 and str(tensor.dtype) in _INTEGERS
