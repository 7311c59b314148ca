"""Optimizers, in one kernel if a GPU has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def fused(
    kind: Callable[..., torch.optim.Optimizer], parameters: Iterable[torch.nn.Parameter], **options: Any
) -> torch.optim.Optimizer:
    """Make an optimizer, with a fused kernel on a GPU.

    With any other kernel, the host would wait in every step to see whether a gradient has overflowed in fp16.
    """
    weights = list(parameters)
    return kind(weights, fused=True if weights[0].device.type == "cuda" else None, **options)
