"""The contract of engine and workload: an `Env` in, a `Prepared` or `Job` out."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from workloads.harness.records.case import COMPILED, EAGER

if TYPE_CHECKING:
    import torch

EXACT = "float64"  # the type of most references
# Torch draws normal values in blocks of 16, and fewer than one block in another way.
BLOCK = 16
DRAWN = 2**22 * BLOCK  # values that are drawn on the host at once
Function = TypeVar("Function", bound=Callable[..., Any])
Module = TypeVar("Module", bound="torch.nn.Module")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload, built and ready for its steps.

    Attributes:
        step: one step, without synchronising; returns its result.
        inputs: device tensors that a caller would have to move there. The engine changes them in place to see
            that the result follows.
        reference: the float64 result on the CPU, from the present inputs.
        view: selects from a large result what `reference` computes; each of several tensors must be right.
        units, unit: work of one step in the user's terms, such as 2 images.
        flops: floating-point operations of one step, by formula.
        bytes: compulsory traffic of one step: inputs read once, result written once.
        matmul_flops: the part of `flops` in matrix products and convolutions, which torch's counter confirms.
        reset: restores what steps change, such as a model in training.
        learns: `reset` restores something learnt, so the result is a loss, which must fall; else a place in
            the data.
        watched: a context in which a step records dropout's masks and the like for `reference`.
        tolerance: multiplies the precision's bound, for roundings over many layers.
        moves_inputs: the step itself moves its inputs to the device, as with a data loader.
        parameters: trainable parameters of the model, if any.
        data: source of the inputs: drawn from the seed, or files.
        unexchanged: a context in which a group's ranks do not exchange gradients; None without any.
        alone: each process of a group also measures its steps while the others wait.
        chosen: the workload's choice on this device, such as m, n and k of a product.
        reference_on_device: `reference` takes the device's memory.
    """

    step: Callable[[], torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    reference: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]]
    view: Callable[[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]
    units: float
    unit: str
    flops: float
    bytes: float
    matmul_flops: float
    reset: Callable[[], None] | None = None
    watched: Callable[[], AbstractContextManager[object]] = nullcontext
    tolerance: float = 1.0
    moves_inputs: bool = False
    parameters: int | None = None
    data: str = "synthetic"
    learns: bool = True
    unexchanged: Callable[[], AbstractContextManager[object]] | None = None
    alone: bool = False
    chosen: tuple[int, ...] = ()
    reference_on_device: bool = False
    reference_dtype: str = EXACT

    @property
    def is_training(self) -> bool:
        return self.reset is not None and self.learns


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a whole job.

    Attributes:
        losses: of every step, in order; empty without learning.
        metric, value: of its target, such as the accuracy on held-out data.
        target: a bound of `value`, a lower one if `higher_is_better`.
        step_s: host seconds from the end of each step to the next; only their sum counts if the device runs
            behind.
        memory: over the job, as in `MemoryAt`.
    """

    losses: tuple[float, ...]
    metric: str
    value: float
    target: float | None
    higher_is_better: bool = True
    step_s: tuple[float, ...] = ()
    memory: tuple[tuple[int, int, int, int, int], ...] = ()

    @property
    def met(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.higher_is_better else self.value <= self.target


@dataclass(frozen=True, slots=True)
class Job:
    """A whole piece of work, such as training to a target.

    Attributes:
        run: does all of it from the beginning and waits for the device.
        warm_up: pays a first step's one-off costs, on a model that is dropped.
        units, unit: work of the whole job in the user's terms, such as 60000 images.
        flops, bytes, matmul_flops, parameters, data: as in `Prepared`, of the whole job.
    """

    run: Callable[[], JobResult]
    warm_up: Callable[[], None]
    units: float
    unit: str
    flops: float
    bytes: float
    matmul_flops: float
    parameters: int | None = None
    data: str = "synthetic"


@dataclass(slots=True)
class Env:
    """A workload's device, precision, layout and only source of randomness.

    Data is drawn on the CPU on any device, so that a seed gives every machine the same numbers.

    Attributes:
        to_device: the engine's, which times the moves of host tensors separately.
        data: folder with the real data sets; None to draw data.
        phase: a context whose time counts for the named phase, not for building.
        rank, world: this process's number among those that run the workload together, and their number.
    """

    device: torch.device
    dtype: torch.dtype
    layout: str
    generator: torch.Generator
    to_device: Callable[[torch.Tensor], torch.Tensor]
    precision: str = "fp32"
    data: Path | None = None
    rank: int = 0
    world: int = 1
    mode: str = EAGER
    phase: Callable[[str], AbstractContextManager[object]] = nullcontext

    def randn(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        import torch

        return self._drawn(torch.randn, shape, dtype or self.dtype)

    def rand(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        import torch

        return self._drawn(torch.rand, shape, dtype or self.dtype)

    def _drawn(
        self, draw: Callable[..., torch.Tensor], shape: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        """Draw on the host in pieces, with the same values as the whole."""
        import torch

        count = math.prod(shape)
        values = torch.empty(count, dtype=dtype, device=self.device)
        starts = range(0, max(count - BLOCK + 1, 1), DRAWN)  # so that the last piece is of at least a block
        for start, end in pairwise((*starts, count)):
            values[start:end] = self.to_device(draw(end - start, generator=self.generator).to(dtype))
        return self._ordered(values.view(shape))

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Bring a host tensor to the case's precision (integers excepted), layout and device."""
        return self.to_device(self._ordered(tensor.to(self.dtype) if tensor.is_floating_point() else tensor))

    def place_exact(self, tensor: torch.Tensor) -> torch.Tensor:
        """Bring a host tensor to layout and device in its own type, for mixed precision."""
        return self.to_device(self._ordered(tensor))

    def draw(self, high: int, count: int = 1) -> list[int]:
        """Draw different integers in [0, high), sorted; fewer if `high` is smaller."""
        import torch

        return sorted(torch.randperm(high, generator=self.generator)[:count].tolist())

    def model(self, build: Callable[[], Module], dtype: torch.dtype | None = None) -> Module:
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=self.generator)))
            model = build()
        return self.ordered(model.to(self.device, dtype or torch.float32))

    def ordered(self, model: Module) -> Module:
        placed, channels_last = cast(Any, model), self._memory_format()
        return cast(Module, placed.to(memory_format=channels_last) if channels_last else placed)

    def compiled(self, function: Function) -> Function:
        """Return a function or model in the case's mode, without torch's own CUDA graphs."""
        import torch

        return cast(Function, torch.compile(function, dynamic=False)) if self.mode in COMPILED else function

    def autocast(self) -> torch.autocast:
        import torch

        return torch.autocast(self.device.type, self.dtype, enabled=self.precision in ("fp16", "bf16"))

    def _ordered(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch

        if tensor.dim() != 4:
            return tensor.contiguous()
        return tensor.contiguous(memory_format=self._memory_format() or torch.contiguous_format)

    def _memory_format(self) -> torch.memory_format | None:
        import torch

        return torch.channels_last if self.layout == "channels_last" else None
