"""Notes on a script's data loaders, and the one of them that gives the batches of its training."""

from __future__ import annotations

import statistics
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

FIRST_BATCHES = 100  # of an iterator that are looked at
MOST_LOADERS = 50  # a script can make a new data set in each epoch
FULL = (
    0.9  # batches a step from which on a loader feeds a training: one that reads ahead gives slightly fewer
)
_INTEGERS = ("torch.int64", "torch.int32", "torch.int16", "torch.uint8")


@dataclass(slots=True)
class LoaderUse:
    """Use of one data set's loader, over all of its iterators.

    Attributes:
        shape: of the first tensor of a batch, at the beginning of an epoch.
        lengths: of the token ids of a sample, that of each batch so far; empty if a batch is not token ids.
        is_batched: False if the loader leaves it to the data set to make batches.
        batches: in an epoch; None if its sampler has no length.
        rates: batches in a step, between the ends of two steps, of the first batches of each iterator.
        first_rate: the same up to the end of the first step that used it; None before.
        first_step, last_step: steps done at its first batch, and at the latest batch that was looked at.
        epochs_at: steps done at each end of an epoch.
        epoch_steps: steps of the last whole epoch; None if there was none.
    """

    shape: tuple[int, ...] = ()
    lengths: set[int] = field(default_factory=set)
    is_batched: bool = True
    batches: int | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=FIRST_BATCHES))
    first_rate: float | None = None
    first_step: int = 0
    last_step: int = 0
    epochs_at: list[int] = field(default_factory=list)
    epoch_steps: int | None = None

    @property
    def batches_of_step(self) -> float | None:
        """Batches in a usual step; None before a step has used the loader."""
        return statistics.median(self.rates) if self.rates else self.first_rate

    @property
    def steps_of_epoch(self) -> int | None:
        """Steps of an epoch, the last whole one or by the loader's length; None if neither is known."""
        if self.epoch_steps is not None or self.batches is None or not self.batches_of_step:
            return self.epoch_steps
        return max(round(self.batches / self.batches_of_step), 1)


@dataclass(slots=True)
class _Iterator:
    """Notes on an iterator of a loader.

    Attributes:
        generation: of the count of steps.
        begun: batches used and steps done when it was first noted in this count.
        epoch_begun: steps done at the beginning of its epoch.
        latest: batches used and steps done at its first batch after the latest step; None before a step used it.
        batches: looked at.
    """

    use: LoaderUse
    generation: int
    begun: tuple[int, int]
    epoch_begun: int
    latest: tuple[int, int] | None = None
    batches: int = 0


class Loaders:
    """Notes on all loaders of a script; `steps` is the number of steps that are done."""

    def __init__(self) -> None:
        self._uses: dict[tuple[int, int | None], LoaderUse] = {}
        self._iterators: weakref.WeakKeyDictionary[Any, _Iterator] = weakref.WeakKeyDictionary()
        self._live: list[tuple[weakref.ref[Any], _Iterator]] = []
        self._generation = 0

    @property
    def uses(self) -> Sequence[LoaderUse]:
        """The loaders in the order of their first batches."""
        return [*self._uses.values()]

    def number(self, iterator: Any) -> int | None:
        """Return the place of an iterator's loader in `uses`; None before its first batch."""
        notes = self._iterators.get(iterator)
        return None if notes is None else [use is notes.use for use in self._uses.values()].index(True)

    def count_anew(self) -> None:
        """Begin to count steps anew: what is known of steps that used a loader is forgotten."""
        self._generation += 1
        for use in self._uses.values():
            use.first_rate, use.epoch_steps, use.first_step, use.last_step = None, None, 0, 0
            use.rates.clear()
            use.epochs_at.clear()

    def batch_came(self, iterator: Any, batch: Any, steps: int) -> None:
        """Note a batch, of the first `FIRST_BATCHES` of its iterator."""
        notes, before = self._iterators.get(iterator), iterator._num_yielded - 1
        if notes is not None and notes.batches >= FIRST_BATCHES and before:
            return
        if notes is None or notes.generation != self._generation or not before:
            notes = self._begin(iterator, batch, before, steps)
        notes.batches += 1
        use, tensor = notes.use, first_tensor(batch)
        if tensor is not None and is_token_ids(tensor):
            use.lengths.add(tensor.shape[1])
        if steps > (notes.latest or notes.begun)[1]:
            use.last_step = steps
            batches, done = notes.latest or notes.begun
            rate = (before - batches) / (steps - done)
            if notes.latest:  # between the ends of steps, because a script can read ahead
                use.rates.append(rate)
            use.first_rate = use.first_rate or rate
            notes.latest = (before, steps)

    def ended(self, iterator: Any, steps: int) -> None:
        """Note the end of an iterator, which ends an epoch if steps used it."""
        notes = self._iterators.pop(iterator, None)
        if notes is not None:
            self._end(notes, steps, iterator._num_yielded)

    def _begin(self, iterator: Any, batch: Any, before: int, steps: int) -> _Iterator:
        """Note the first batch of an iterator, or its first one since steps are counted anew."""
        old = self._iterators.pop(iterator, None)
        if old is not None and not before:  # workers that stay begin another epoch in the same iterator
            self._end(old, steps)
        self._note_left(steps)
        try:
            batches = len(iterator._index_sampler)
        except Exception:  # its sampler has no length, or the user's own one fails
            batches = None
        key = (id(iterator._dataset), batches)
        if key not in self._uses and len(self._uses) >= MOST_LOADERS:
            self._uses.pop(next(iter(self._uses)))
        use = self._uses.setdefault(key, LoaderUse(first_step=steps))
        tensor = first_tensor(batch)
        if tensor is not None and not before:
            use.shape = tuple(tensor.shape)
        use.batches, use.is_batched = batches, bool(getattr(iterator, "_auto_collation", True))
        notes = _Iterator(use, self._generation, (before, steps), 0 if before else steps)
        self._iterators[iterator] = notes
        self._live.append((weakref.ref(iterator), notes))
        return notes

    def _note_left(self, steps: int) -> None:
        """Note the ends of epochs that the script has left by `break`: their iterators are gone."""
        for iterator, notes in self._live:
            if iterator() is None and notes.latest is not None:
                self._end(notes, steps)
        self._live = [(iterator, notes) for iterator, notes in self._live if iterator() in self._iterators]

    def _end(self, notes: _Iterator, steps: int, batches: int | None = None) -> None:
        """Note the end of an epoch, of a known number of batches unless the script has left it."""
        begun, use = (notes.epoch_begun if notes.generation == self._generation else 0), notes.use
        if begun >= steps or use.epochs_at[-1:] == [steps]:
            return
        use.epochs_at.append(steps)
        use.epoch_steps, use.last_step = steps - begun, steps
        if batches is not None:
            use.first_rate = use.first_rate or (batches - notes.begun[0]) / (steps - notes.begun[1] or 1)


def training_loaders(uses: Iterable[LoaderUse]) -> list[LoaderUse]:
    """Return the loaders that feed the training: the only one, or all candidates if there are several.

    A loader feeds it if it gives about a batch or more in each step. Loaders that followed each other, as when each
    epoch makes a new data set, are one loader with all of their epochs.
    """
    fed = [use for use in uses if use.batches_of_step and use.batches_of_step >= FULL]
    if not fed:
        return []
    latest = max(fed, key=lambda use: use.last_step)
    together = [use for use in fed if use is latest or use.last_step > latest.first_step]
    if len(together) > 1:
        return together
    earlier = [use for use in fed if use is not latest and use.shape[1:] == latest.shape[1:]]
    return [
        replace(
            latest,
            lengths=latest.lengths.union(*(use.lengths for use in earlier)),
            epochs_at=sorted({at for use in (*earlier, latest) for at in use.epochs_at}),
            epoch_steps=next(
                (use.epoch_steps for use in (latest, *reversed(earlier)) if use.epoch_steps), None
            ),
        )
    ]


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
