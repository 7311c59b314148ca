"""References in a wider type on the device, for models too large for float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from workloads.harness.prepared import Env
from workloads.harness.training.layers import copy_on

if TYPE_CHECKING:
    import torch

ROOM = (
    4  # times the bytes of wide weights: the weights, their gradients, and the work on a block and the loss
)


def wider_than(dtype: torch.dtype) -> torch.dtype:
    import torch

    return torch.float64 if dtype == torch.float32 else torch.float32


def wider_copy(env: Env, model: torch.nn.Module) -> tuple[torch.nn.Module, torch.dtype]:
    wide = wider_than(env.dtype)
    return copy_on(env.device, model).to(wide), wide


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def place_of(device: torch.device, weights_bytes: int) -> torch.device:
    """Return the device if a reference's wide weights and work fit, else the host."""
    import torch

    return device if free_bytes(device) >= ROOM * weights_bytes else torch.device("cpu")


def free_bytes(device: torch.device) -> int:
    import torch

    if device.type != "cuda":
        return 0
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def widened(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def apart(
    exact: torch.nn.Module,
    loss: Callable[..., torch.Tensor],
    inputs: Sequence[torch.Tensor],
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the mean loss in float64 on the host, sample by sample, with gradients in the model."""
    import torch

    joined = any(isinstance(module, torch.nn.BatchNorm2d) for module in exact.modules())
    count = len(inputs[0])
    part, total = count if joined else 1, 0.0
    for start in range(0, count, part):
        value = loss(exact, *(widened(t[start : start + part], dtype) for t in inputs)) * (part / count)
        value.backward()  # type: ignore[no-untyped-call]
        total += float(value.detach())
    return torch.tensor(total, dtype=torch.float64)


def as_it_began(
    model: torch.nn.Module,
    beginning: Mapping[str, torch.Tensor],
    dtype: torch.dtype,
    device: torch.device,
) -> torch.nn.Module:
    import torch

    copies: dict[int, Any] = {}
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        kept = tensor.detach()
        if name in beginning:
            kept = widened(beginning[name].to(device, copy=True), dtype)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        copies[id(tensor)] = torch.nn.Parameter(kept, tensor.requires_grad) if is_parameter else kept
    return copy.deepcopy(model, copies)


def visited(model: torch.nn.Module, blocks: str, device: torch.device, dtype: torch.dtype) -> torch.nn.Module:
    """Move a model to a device, but blocks only while each computes.

    Backward the block comes again and computes again. Its gradients are where its weights are. An empty name
    means the model itself.
    """
    import torch
    from torch.func import functional_call
    from torch.utils.checkpoint import checkpoint

    class Visitor(torch.nn.Module):
        def __init__(self, block: torch.nn.Module) -> None:
            super().__init__()
            self.block = block

        def forward(self, *inputs: torch.Tensor) -> Any:
            def call(*inputs: torch.Tensor) -> Any:
                own = chain(self.block.named_parameters(), self.block.named_buffers())
                there = {name: widened(tensor.to(device), dtype) for name, tensor in own}
                return functional_call(self.block, there, inputs)

            return checkpoint(call, *inputs, use_reentrant=False)

    row = torch.nn.Sequential(*map(Visitor, model.get_submodule(blocks).children()))
    if not blocks:
        return row
    holder, _, name = blocks.rpartition(".")
    setattr(model.get_submodule(holder), name, torch.nn.Sequential())
    model.to(device, dtype)
    setattr(model.get_submodule(holder), name, row)
    return model
