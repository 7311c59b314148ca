"""Notes on a script's data loaders; which of them feeds its training."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

FIRST_BATCHES = 100  # of a pass over a loader that are looked at
MOST_LOADERS = 50  # a script can make a new data set in each epoch
FULL = (
    0.9  # batches a step from which on a loader feeds a training: one that reads ahead gives slightly fewer
)
_INTEGERS = ("torch.int64", "torch.int32", "torch.int16", "torch.uint8")


@dataclass(slots=True)
class LoaderUse:
    """Use of one data set's loader, over all passes.

    Attributes:
        shape: of the first tensor of a batch, at the beginning of an epoch.
        lengths: in tokens, of each batch's samples so far; empty if a batch is not token ids.
        batches: in an epoch; None if its sampler has no length.
        rates: batches in a step, between the ends of two steps, of the first batches of each pass.
        first_rate: the same up to the end of the first step that used it; None before.
        first_step, last_step: steps done at its first batch, and at the latest batch that was looked at.
        epochs_at: steps done at each end of an epoch.
        epoch_steps: steps of the last whole epoch; None if there was none.
    """

    shape: tuple[int, ...] = ()
    lengths: set[int] = field(default_factory=set)
    batches: int | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=FIRST_BATCHES))
    first_rate: float | None = None
    first_step: int = 0
    last_step: int = 0
    epochs_at: list[int] = field(default_factory=list)
    epoch_steps: int | None = None

    @property
    def batches_of_step(self) -> float | None:
        return statistics.median(self.rates) if self.rates else self.first_rate

    @property
    def steps_of_epoch(self) -> int | None:
        if self.epoch_steps is not None or self.batches is None or not self.batches_of_step:
            return self.epoch_steps
        return max(round(self.batches / self.batches_of_step), 1)


@dataclass(slots=True, eq=False)
class LoaderPass:
    """One pass over a loader.

    Attributes:
        data: key of the loader's data set.
        asked_s: when the last batch was asked for, by `time.perf_counter`.
        use: None before its first batch, and after its end.
        generation: of the count of steps in which it was noted.
        settled: generation in which its batches are looked at no more; -1 before.
        begun: batches used and steps done when it was first noted in this count.
        epoch_begun: steps done at the beginning of its epoch.
        latest: batches used and steps done at its first batch after the latest step; None before a step used
            it.
        ended: its use at its end, the steps done then, and the steps of the epoch before if the end was that
            of an epoch. An error in place of a batch looks like an end until the next batch comes.
    """

    data: int = 0
    batches: int = 0
    asked_s: float = 0.0
    looked_at: int = 0
    use: LoaderUse | None = None
    generation: int = 0
    settled: int = -1
    begun: tuple[int, int] = (0, 0)
    epoch_begun: int = 0
    latest: tuple[int, int] | None = None
    ended: tuple[LoaderUse, int, bool, int | None] | None = None


class Loaders:
    """Notes on all loaders of a script; `generation` is how often steps were counted anew."""

    def __init__(self) -> None:
        self._uses: dict[tuple[int, int | None], LoaderUse] = {}
        self.generation = 0

    @property
    def uses(self) -> Sequence[LoaderUse]:
        return [*self._uses.values()]

    def count_anew(self) -> None:
        self.generation += 1
        for use in self._uses.values():
            use.first_rate, use.epoch_steps, use.first_step, use.last_step = None, None, 0, 0
            use.rates.clear()
            use.epochs_at.clear()

    def knows(self, loader_pass: LoaderPass) -> bool:
        return loader_pass.use is not None and loader_pass.generation == self.generation

    def batch_came(self, loader_pass: LoaderPass, batch: Any, batches: int | None, steps: int) -> None:
        """Note the latest batch of a pass; `batches` in it count if the pass is not known yet."""
        before, tensor = loader_pass.batches - 1, first_tensor(batch)
        if before and loader_pass.use is None and loader_pass.ended:
            self._go_on(loader_pass)
        use = loader_pass.use
        if use is None or not self.knows(loader_pass):
            use = self._begin(loader_pass, batches, steps)
            if tensor is not None and (not before or not use.shape):
                use.shape = tuple(tensor.shape)
        loader_pass.looked_at += 1
        if loader_pass.looked_at >= FIRST_BATCHES:
            loader_pass.settled = self.generation
        if tensor is not None and is_token_ids(tensor):
            use.lengths.add(tensor.shape[1])
        if steps > (loader_pass.latest or loader_pass.begun)[1]:
            use.last_step = steps
            used, done = loader_pass.latest or loader_pass.begun
            rate = (before - used) / (steps - done)
            if loader_pass.latest:  # between the ends of steps, because a script can read ahead
                use.rates.append(rate)
            use.first_rate = use.first_rate or rate
            loader_pass.latest = before, steps

    def ended(self, loader_pass: LoaderPass, steps: int) -> None:
        """Note the end of a pass, also by `break`; it ends an epoch if steps used more than a first batch."""
        use, loader_pass.use, loader_pass.settled = loader_pass.use, None, -1
        if use is None:
            return
        begun = loader_pass.epoch_begun if loader_pass.generation == self.generation else 0
        is_whole = use.batches is None or loader_pass.batches >= use.batches
        is_epoch = begun < steps and use.epochs_at[-1:] != [steps] and (is_whole or loader_pass.batches > 1)
        loader_pass.ended = use, steps, is_epoch, use.epoch_steps
        if not is_epoch:
            return
        use.epochs_at.append(steps)
        use.epoch_steps, use.last_step = steps - begun, steps
        if is_whole:
            used, done = loader_pass.begun
            use.first_rate = use.first_rate or (loader_pass.batches - used) / max(steps - done, 1)

    def _go_on(self, loader_pass: LoaderPass) -> None:
        assert loader_pass.ended is not None
        (use, steps, is_epoch, epoch_steps), loader_pass.ended = loader_pass.ended, None
        loader_pass.use = use
        if is_epoch and use.epochs_at[-1:] == [steps]:
            use.epochs_at.pop()
            use.epoch_steps = epoch_steps

    def _begin(self, loader_pass: LoaderPass, batches: int | None, steps: int) -> LoaderUse:
        before = loader_pass.batches - 1
        key = (loader_pass.data, batches)
        if key not in self._uses and len(self._uses) >= MOST_LOADERS:
            self._uses.pop(next(iter(self._uses)))
        use = loader_pass.use = self._uses.setdefault(key, LoaderUse(batches=batches, first_step=steps))
        loader_pass.generation, loader_pass.begun = self.generation, (before, steps)
        loader_pass.epoch_begun, loader_pass.latest, loader_pass.looked_at = 0 if before else steps, None, 0
        return use


def training_loaders(uses: Iterable[LoaderUse]) -> list[LoaderUse]:
    """Return the loaders that feed the training: the only one, or all candidates.

    A loader feeds it if it gives about a batch or more in each step. Loaders that followed each other, as
    when each epoch makes a new data set, are one loader with all of their epochs.
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


def first_tensor(thing: Any) -> Any:
    """Return the first tensor with dimensions; None if there is none, or an object raises when looked at."""
    try:
        return _first_tensor(thing, 3)
    except Exception:
        return None


def _first_tensor(thing: Any, depth: int) -> Any:
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
        if (found := _first_tensor(part, depth - 1)) is not None:
            return found
    return None


def is_token_ids(tensor: Any) -> bool:
    return len(tensor.shape) == 2 and str(tensor.dtype) in _INTEGERS
