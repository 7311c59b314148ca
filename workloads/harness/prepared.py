"""What a workload hands to the engine, and what the engine hands to a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload, built and ready to be stepped. The engine owns timing, devices, warm-up and statistics.

    Attributes:
        step: one step, without synchronising; returns its result.
        inputs: the device tensors that a caller would have to move there. The engine changes their values in
            place to see that the result follows.
        reference: the float64 result on the CPU, computed from the inputs as they are at that moment.
        view: picks from the step's result what `reference` computes: large results are checked in part.
        units, unit: work of one step in the user's terms, such as 2 images.
        flops: floating-point operations of one step, by formula.
        bytes: compulsory traffic of one step: inputs read once, result written once.
        matmul_flops: the part of `flops` in matrix products and convolutions, which torch's counter confirms.
    """

    step: Callable[[], torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    reference: Callable[[], torch.Tensor]
    view: Callable[[torch.Tensor], torch.Tensor]
    units: float
    unit: str
    flops: float
    bytes: float
    matmul_flops: float


@dataclass(slots=True)
class Env:
    """Where a workload is built: device, precision, layout and the one source of randomness.

    Data is drawn on the CPU whatever the device, so that every machine gets the same numbers for a seed.

    Attributes:
        to_device: moves a host tensor to the device; the engine's own, so that moving is timed apart.
    """

    device: torch.device
    dtype: torch.dtype
    layout: str
    generator: torch.Generator
    to_device: Callable[[torch.Tensor], torch.Tensor]

    def randn(self, *shape: int) -> torch.Tensor:
        """Standard normal values of this shape, on the device, in the case's precision and layout."""
        import torch

        return self.place(torch.randn(*shape, generator=self.generator))

    def rand(self, *shape: int) -> torch.Tensor:
        """Uniform values in [0, 1) of this shape, such as images, on the device."""
        import torch

        return self.place(torch.rand(*shape, generator=self.generator))

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Bring a host tensor to the case's precision, layout and device."""
        import torch

        last = self.layout == "channels_last" and tensor.dim() == 4
        ordered = torch.channels_last if last else torch.contiguous_format
        return self.to_device(tensor.to(self.dtype).contiguous(memory_format=ordered))

    def draw(self, high: int, count: int = 1) -> list[int]:
        """`count` sorted whole numbers in [0, high), without repetition; fewer where `high` is smaller."""
        import torch

        return sorted(torch.randperm(high, generator=self.generator)[:count].tolist())
