"""References of models that are too large for float64 on the host: in a wider type, on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from workloads.harness.prepared import Env
from workloads.harness.training.layers import copy_on

if TYPE_CHECKING:
    import torch

    Module = TypeVar("Module", bound=torch.nn.Module)


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


def apart(
    exact: torch.nn.Module,
    loss: Callable[..., torch.Tensor],
    inputs: Sequence[torch.Tensor],
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the mean loss of samples, in float64 on the host; their gradients are in the model afterwards.

    Samples that nothing in the model joins go through one by one, so that it takes little memory.
    """
    import torch

    joined = any(isinstance(module, torch.nn.BatchNorm2d) for module in exact.modules())
    count = len(inputs[0])
    part, total = count if joined else 1, 0.0
    for start in range(0, count, part):
        value = loss(exact, *(widened(t[start : start + part], dtype) for t in inputs)) * (part / count)
        value.backward()  # type: ignore[no-untyped-call]
        total += float(value.detach())
    return torch.tensor(total, dtype=torch.float64)


def visited(model: Module, blocks: str, device: torch.device) -> Module:
    """Move a model to a device but for a row of blocks, whose weights come there only while they compute.

    Backward they come once more, and the block computes again. Its gradients are on the host.
    """
    import torch
    from torch.func import functional_call
    from torch.utils.checkpoint import checkpoint

    class Visitor(torch.nn.Module):
        def __init__(self, block: torch.nn.Module) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: torch.Tensor) -> Any:
            def call(x: torch.Tensor) -> Any:
                weights = {name: weight.to(device) for name, weight in self.block.named_parameters()}
                return functional_call(self.block, weights, (x,))

            return checkpoint(call, x, use_reentrant=False)

    row = torch.nn.Sequential(*map(Visitor, model.get_submodule(blocks).children()))
    setattr(model, blocks, torch.nn.Sequential())
    model.to(device)
    setattr(model, blocks, row)
    return model
