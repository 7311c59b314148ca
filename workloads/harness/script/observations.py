"""Notes that hooks take while a script runs: counts and references, never a wait for a device."""

from __future__ import annotations

import time
import weakref
from array import array
from dataclasses import dataclass, field
from typing import Any

# Attributes of a loader's iterator: the steps done at its first batch, and its batches and steps at its first step.
_BEGUN, _STEPPED = "_gridbench_begun", "_gridbench_stepped"
FIRST_BATCHES = 100  # of a loader that are looked at
LOSSES = 64  # of the first steps, compared with other machines: a fall shows in this many
_INTEGERS = ("torch.int64", "torch.int32", "torch.int16", "torch.uint8")


@dataclass(slots=True)
class Observations:
    """Notes of a script's run so far.

    Attributes:
        ends_s: end of each step, on the clock of `time.perf_counter` less the measurement's own time.
        paused_s: seconds of the measurement's own time; `stands_s` is the clock's time while it stands.
        losses: detached tensors of the first backward call of each of the first steps.
        loss_due: the next backward call is the first of its step.
        backwards: backward calls so far; `first_backward_s` is the time of the first.
        loader_s: seconds that the script's main process waited for its loaders.
        loading: the thread in which a loader makes a batch, perhaps with modules of its own; else 0.
        shape: of the model's first input tensor; `is_tokens` if it holds ids in 2 dimensions.
        loaded: the shape of a loader's last batch, for models whose calls are not seen.
        epoch_batches: batches of an epoch, by the last loader that a step used.
        step_batches: batches of that loader in a step; None if they were not counted.
        epochs_at: steps done at each end of such a loader.
        epoch_steps: steps of the last complete epoch; None if there was none.
        counts: how often the count of steps began anew.
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
    _source: Any = None  # a weak reference to the last iterator that a step used
    _source_begun: tuple[int, int] = (0, 0)

    @property
    def position(self) -> str:
        """The script's position in words, such as `in step 3`."""
        return f"in step {len(self.ends_s) + 1}" if self.ends_s else "before its first step"

    def now_s(self) -> float:
        """Return seconds on the script's clock, which stands while the measurement works."""
        return time.perf_counter() - self.paused_s if self.stands_s is None else self.stands_s

    def pause(self) -> None:
        """Stop the script's clock."""
        self.stands_s = self.now_s()

    def go_on(self) -> None:
        """Let the script's clock go on."""
        assert self.stands_s is not None
        self.paused_s, self.stands_s = time.perf_counter() - self.stands_s, None

    def stepped(self) -> None:
        """Note the end of a step."""
        self.ends_s.append(time.perf_counter() - self.paused_s)
        self.loss_due = True

    def backward(self, loss: Any) -> None:
        """Note a backward call of a loss."""
        self.backwards += 1
        if self.first_backward_s is None:
            self.first_backward_s = self.now_s()
        if self.loss_due and len(self.losses) < LOSSES:
            self.losses.append(loss.detach().clone())
        self.loss_due = False

    def forget_steps(self) -> None:
        """Begin to count steps anew."""
        del self.ends_s[:], self.epochs_at[:]
        self.counts += 1

    def batch_came(self, iterator: Any, batch: Any) -> None:
        """Note a batch of a loader: steps use this loader if one was made since its first batch."""
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
            try:
                self.epoch_batches = len(iterator._index_sampler)
            except Exception:  # its sampler has no length, or the user's own one fails
                self.epoch_batches = None
            self._source, self._source_begun = weakref.ref(iterator), getattr(iterator, _BEGUN)
            if steps != self._looked:
                self._count_batches(iterator, steps - begun)
        self._looked = steps

    def _count_batches(self, iterator: Any, steps: int) -> None:
        """Note the batches of a step, between the ends of two steps: a script may read ahead."""
        batches, first = iterator._num_yielded - 1, getattr(iterator, _STEPPED, None)
        if first is None:
            setattr(iterator, _STEPPED, (batches, steps))
            self.step_batches = self.step_batches or batches / steps
        elif steps > first[1]:
            self.step_batches = (batches - first[0]) / (steps - first[1])

    def _end_left_loader(self) -> None:
        """Note the end of an epoch that the script has left by `break`: its iterator is gone."""
        if self._source is None or self._source() is not None:
            return
        counts, begun = self._source_begun
        if counts == self.counts and begun < len(self.ends_s):
            self.epochs_at.append(len(self.ends_s))
            self.epoch_steps = len(self.ends_s) - begun
        self._source = None

    def loader_ended(self, iterator: Any) -> None:
        """Note the end of a loader, which ends an epoch if steps used it."""
        begun = self._begun(iterator)
        if begun is not None and begun < len(self.ends_s):
            self.epochs_at.append(len(self.ends_s))
            self.epoch_steps = len(self.ends_s) - begun
        setattr(iterator, _BEGUN, None)
        if self._source is not None and self._source() is iterator:
            self._source = None

    def _begun(self, iterator: Any) -> int | None:
        """Return the steps done at a loader's first batch; None before it."""
        noted = getattr(iterator, _BEGUN, None)
        if noted is None:
            return None
        counts, steps = noted
        return int(steps) if counts == self.counts else 0

    def steps_of_epoch(self, calls: float) -> int | None:
        """Return the steps of an epoch, with `calls` backward calls a step; None if no loader has a length."""
        if self.epoch_steps is not None or self.epoch_batches is None:
            return self.epoch_steps
        return max(round(self.epoch_batches / (self.step_batches or calls)), 1)

    def batches_of_step(self, calls: float) -> float:
        """Return the batches of a step with `calls` backward calls; several calls may share a batch.

        If the model's batches are not the loader's, each call has a batch of its own.
        """
        if self.step_batches and (not self.shape or self.shape[:1] == self.loaded[:1]):
            return self.step_batches
        return calls

    @property
    def samples(self) -> int | None:
        """Samples in a call of the model, by its input; None if no input was seen."""
        shape = self.shape or self.loaded
        return shape[0] if shape else None

    @property
    def tokens(self) -> int | None:
        """Tokens in a call of the model; None if the input is not token ids."""
        shape, tokens = (self.shape, self.is_tokens) if self.shape else (self.loaded, self.loaded_tokens)
        return shape[0] * shape[1] if tokens else None


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
