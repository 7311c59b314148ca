"""References of models that are too large for float64 on the host: in a wider type, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.harness.prepared import Env
from workloads.harness.training.layers import copy_on

if TYPE_CHECKING:
    import torch


def wider_than(dtype: torch.dtype) -> torch.dtype:
    """Return a type whose roundings don't count beside those of `dtype`."""
    import torch

    return torch.float64 if dtype == torch.float32 else torch.float32


def wider_copy(env: Env, model: torch.nn.Module) -> tuple[torch.nn.Module, torch.dtype]:
    """Return a copy of a model on the device, in a type that is wider than the case's, and that type."""
    wide = wider_than(env.dtype)
    return copy_on(env.device, model).to(wide), wide


def widened(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor in `dtype`; whole numbers keep theirs."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
