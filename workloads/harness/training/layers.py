"""Floating-point operations of a model by formula, layer by layer, without computing."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def layer_flops(model: torch.nn.Module, *inputs: torch.Tensor) -> tuple[float, float]:
    """Return FLOPs of convolutions and linear layers, forward and in a training step.

    A layer with weight W of c_out rows that writes m values takes 2 m |W| / c_out operations forward;
    backward as many for the gradient of W, and for that of its input if needed. The model runs on tensors
    without data.
    """
    import torch

    forward = training = 0.0

    def count(layer: torch.nn.Module, given: tuple[torch.Tensor, ...], made: torch.Tensor) -> None:
        nonlocal forward, training
        weight: Any = layer.weight
        flops = 2 * made.numel() * math.prod(weight.shape[1:])
        forward += flops
        training += flops * (1 + weight.requires_grad + given[0].requires_grad)

    bare = copy_on("meta", model)
    for layer in bare.modules():
        if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
            layer.register_forward_hook(count)
    with torch.enable_grad():
        bare(*(tensor.to("meta") for tensor in inputs))
    return forward, training


def parameter_count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def parameter_bytes(model: torch.nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def copy_on(device: str | torch.device, model: torch.nn.Module) -> torch.nn.Module:
    """Return a deep copy of the model on `device`, without memory elsewhere."""
    import torch

    copies: dict[int, Any] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        moved: torch.Tensor = tensor.detach().to(device, copy=True)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        copies[id(tensor)] = torch.nn.Parameter(moved, tensor.requires_grad) if is_parameter else moved
    return copy.deepcopy(model, copies)
