"""Notes that hooks take while a script runs: counts and references, never a wait for a device."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

FIRST_BATCHES = 100  # of a loader that are looked at
LOSSES = 64  # of the first steps, compared with other machines: a fall shows in this many
_INTEGERS = ("torch.int64", "torch.int32", "torch.int16", "torch.uint8")


@dataclass(slots=True, eq=False)
class LoaderPass:
    """One pass over a loader.

    Attributes:
        batches: so far.
        asked_s: when the last batch was asked for, by `time.perf_counter`.
        begun: at its first batch, how often the count of steps began anew, and the steps done; None before it.
        stepped: its batches and the steps since `begun`, when a step had been made with it for the first time.
    """

    batches: int = 0
    asked_s: float = 0.0
    begun: tuple[int, int] | None = None
    stepped: tuple[int, int] | None = None


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
        loading: the thread that waits for a batch of a loader; else 0.
        shape: of the model's first input tensor; `is_tokens` if it holds ids in 2 dimensions.
        loaded: the shape of a loader's last batch, for models whose calls are not seen.
        epoch_batches: batches of an epoch, by the last loader that a step used.
        step_batches: batches of that loader in a step; None if they were not counted.
        epochs_at: steps done at each end of such a loader.
        epoch_steps: steps of the last complete epoch; None if there was none.
        counts: how often the count of steps began anew.
        forwards: outermost calls of the model that have begun.
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
    _awaited: LoaderPass | None = None  # of the batch that was asked for last

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
        if self.loading == get_ident():
            self.loading_failed()
        self.ends_s.append(time.perf_counter() - self.paused_s)
        self.loss_due = True

    def backward(self, loss: Any) -> None:
        """Note a backward call; `loss` is None unless it is a single number."""
        self.backwards += 1
        if self.first_backward_s is None:
            self.first_backward_s = self.now_s()
        if self.loss_due and loss is not None and len(self.losses) < LOSSES:
            self.losses.append(loss.detach().clone())
        self.loss_due = False

    def forget_steps(self) -> None:
        """Begin to count steps anew."""
        del self.ends_s[:], self.epochs_at[:]
        self.counts += 1

    def asked(self, loader_pass: LoaderPass) -> None:
        """Note that this thread waits for a batch of a loader."""
        self.loading, self._awaited = get_ident(), loader_pass
        loader_pass.asked_s = time.perf_counter()

    def answered(self, loader_pass: LoaderPass, batches: int) -> None:
        """Note that a loader's batch is there; `batches` came so far."""
        loader_pass.batches, self.loading = batches, 0
        self.loader_s += time.perf_counter() - loader_pass.asked_s

    def loading_failed(self) -> None:
        """Note that the last batch that was waited for did not come: the loader is at its end."""
        self.loading = 0
        if self._awaited is not None:
            self.loader_ended(self._awaited)

    def batch_came(self, loader_pass: LoaderPass, batch: Any, batches: int | None) -> None:
        """Note a batch of a loader of `batches` a pass; a step after its first batch makes it the loader of steps."""
        begun, steps = self._begun(loader_pass), len(self.ends_s)
        if begun is None:
            loader_pass.begun, loader_pass.stepped = (self.counts, steps), None
            tensor = first_tensor(batch)
            if tensor is not None:
                self.loaded, self.loaded_tokens = tuple(tensor.shape), is_token_ids(tensor)
        elif begun < steps:
            self.epoch_batches = batches
            if steps != self._looked:
                self._count_batches(loader_pass, steps - begun)
        self._looked = steps

    def _count_batches(self, loader_pass: LoaderPass, steps: int) -> None:
        """Note the batches of a step, between the ends of two steps: a script may read ahead."""
        batches, first = loader_pass.batches - 1, loader_pass.stepped
        if first is None:
            loader_pass.stepped = batches, steps
            self.step_batches = self.step_batches or batches / steps
        elif steps > first[1]:
            self.step_batches = (batches - first[0]) / (steps - first[1])

    def loader_ended(self, loader_pass: LoaderPass) -> None:
        """Note the end of a pass over a loader, also by `break`; it ends an epoch if steps used its batches."""
        begun = self._begun(loader_pass)
        if begun is not None and begun < len(self.ends_s):
            self.epochs_at.append(len(self.ends_s))
            self.epoch_steps = len(self.ends_s) - begun
        loader_pass.begun = None

    def _begun(self, loader_pass: LoaderPass) -> int | None:
        """Return the steps done at a loader's first batch; None before it."""
        if loader_pass.begun is None:
            return None
        counts, steps = loader_pass.begun
        return steps if counts == self.counts else 0

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
