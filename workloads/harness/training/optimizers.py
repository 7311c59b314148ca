"""Optimizers as they are measured: in one kernel where a GPU has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def fused(
    kind: Callable[..., torch.optim.Optimizer], parameters: Iterable[torch.nn.Parameter], **options: Any
) -> torch.optim.Optimizer:
    """Make an optimizer of a kind that has a fused kernel, which is used on a GPU; elsewhere torch's default.

    The kernel takes the loss scale of fp16 along. Before any other, the host would wait for the device in
    every step, to see whether a gradient has overflowed.
    """
    weights = list(parameters)
    return kind(weights, fused=True if weights[0].device.type == "cuda" else None, **options)
