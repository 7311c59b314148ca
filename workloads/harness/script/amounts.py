"""Samples and tokens of a step, by loaders and calls of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workloads.harness.script.loaders import LoaderUse

USUAL_SHARE = 0.75  # of steps that take the same samples; the last batch of an epoch is smaller
MOST_AMOUNTS = 1000  # different ones to keep
OPTION = "--samples N states the samples of a step"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """An outermost call of a model that counts: in a backward call, or without a training.

    Attributes:
        model: number of the module.
        source: number of the first input tensor, the same for the same tensor.
        shape: of this tensor; `is_tokens` if it holds ids in 2 dimensions.
        backward: number, in the step, of the first backward call through it.
        is_root: no other model of the step computed its input, as for a decoder or a loss.
    """

    model: int
    source: int
    shape: tuple[int, ...]
    is_tokens: bool = False
    backward: int = 0
    is_root: bool = True


@dataclass(frozen=True, slots=True)
class Amounts:
    """Samples of a step of one process, and their lengths in tokens.

    Attributes:
        samples: None if unknown, or if steps differ.
        lengths: all that were seen; empty if the samples are not token ids.
        source: `loader`, `model` or `declared`; empty without samples.
    """

    samples: int | None = None
    lengths: frozenset[int] = frozenset()
    source: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def tokens(self) -> int | None:
        if self.samples is None or len(self.lengths) != 1:
            return None
        return self.samples * next(iter(self.lengths))


def amounts_of_calls(calls: Iterable[ModelCall]) -> Amounts:
    """Return the amounts of one step by the calls of its models; calls on the same tensor count once.

    All models must take equally many samples, and each of them one tensor before a backward call, because
    several tensors can be batches or views of one batch.
    """
    calls = [call for call in calls if call.shape]
    roots = [call for call in calls if call.is_root] or calls  # compiled parts of a model have no root
    roots = [*{(call.model, call.source): call for call in reversed(roots)}.values()]
    if not roots:
        return Amounts()
    if any(len(call.shape) == 1 for call in roots):
        return Amounts(
            doubts=(f"a model takes a tensor of one dimension, a sample or a batch of numbers: {OPTION}",)
        )
    most = max(Counter((call.model, call.backward) for call in roots).values())
    if most > 1:
        text = f"a model takes {most} tensors before a backward call, batches or views of one: {OPTION}"
        return Amounts(doubts=(text,))
    samples = Counter[int]()
    for call in roots:
        samples[call.model] += call.shape[0]
    counts = sorted(set(samples.values()))
    if len(counts) > 1:
        text = f"the models of a step take {' and '.join(map(str, counts))} samples: {OPTION}"
        return Amounts(doubts=(text,))
    is_tokens = all(call.is_tokens for call in roots)
    return Amounts(counts[0], frozenset(call.shape[1] for call in roots if is_tokens), "model")


def amounts_of_steps(steps: Counter[Amounts]) -> Amounts:
    """Return the amounts of a usual step; an epoch's last can have less."""
    counts = Counter[int]()
    for step, count in steps.items():
        if step.samples is not None:
            counts[step.samples] += count
    if not counts or counts.total() < USUAL_SHARE * steps.total():
        return next((step for step in steps if step.doubts), Amounts())
    lengths = frozenset[int]().union(*(step.lengths for step in steps))
    usual, steps_alike = counts.most_common(1)[0]
    most, least = max(counts), min(counts)
    if usual != most or steps_alike < USUAL_SHARE * counts.total():
        return Amounts(lengths=lengths, doubts=(f"steps take {least:,} to {most:,} samples: {OPTION}",))
    return Amounts(usual, lengths, "model")


def amounts_of_loaders(loaders: Sequence[LoaderUse]) -> Amounts:
    if len(loaders) > 1:
        sizes = " and ".join(f"{_samples(use):,}" for use in loaders)
        text = f"{len(loaders)} loaders give batches in each step, of {sizes} samples: {OPTION}"
        return Amounts(doubts=(text,))
    if not loaders or not loaders[0].shape:
        return Amounts()
    return Amounts(_samples(loaders[0]), frozenset(loaders[0].lengths), "loader")


def amounts_of_step(declared: int | None, by_loaders: Amounts, by_model: Amounts) -> Amounts:
    lengths = by_model.lengths or by_loaders.lengths
    if len(by_loaders.lengths) > 1:
        lengths = by_loaders.lengths
    if declared is not None:
        amounts = Amounts(declared, lengths, "declared")
    elif by_loaders.samples is not None:
        amounts = Amounts(by_loaders.samples, lengths, "loader")
    else:
        doubts = by_loaders.doubts or by_model.doubts
        samples, source = (None, "") if doubts else (by_model.samples, by_model.source)
        amounts = Amounts(samples, lengths, source, doubts)
    if len(lengths) > 1:
        text = f"samples have {min(lengths):,} to {max(lengths):,} tokens, so tokens are not counted"
        amounts = replace(amounts, doubts=(*amounts.doubts, text))
    return amounts


def _samples(use: LoaderUse) -> int:
    return round(use.shape[0] * (use.batches_of_step or 1.0)) if use.shape else 0
