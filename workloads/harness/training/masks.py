"""Replay in a reference which values dropout, ReLU and pooling let through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Kept = dict[str, list["torch.Tensor"]]  # by a layer's name: the mask of each of its calls
NEAR_ZERO = 0.1  # of the root mean square: further off no rounding makes a ReLU's input change its sign


def is_masking(module: torch.nn.Module) -> bool:
    import torch

    return isinstance(module, (torch.nn.modules.dropout._DropoutNd, torch.nn.ReLU, torch.nn.MaxPool2d))


@contextmanager
def keeping(model: torch.nn.Module, kept: Kept) -> Iterator[None]:
    handles = [
        module.register_forward_hook(
            lambda *of, name=name: kept.setdefault(name, []).append(let_through(*of))
        )
        for name, module in model.named_modules()
        if is_masking(module)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def replay(model: torch.nn.Module, kept: Mapping[str, list[torch.Tensor]]) -> None:
    """Have a copy of a model pass the same values from now on; with fewer samples, the first ones.

    A layer that computes again, as checkpointed backward passes do, begins anew.
    """
    for name, module in model.named_modules():
        if name in kept:
            module.register_forward_hook(_masking(cycle(kept[name])))


def _masking(masks: Iterator[torch.Tensor]) -> Any:
    def mask(module: torch.nn.Module, given: tuple[torch.Tensor, ...], _: torch.Tensor) -> torch.Tensor:
        return masked(module, given[0], next(masks)[: len(given[0])].to(given[0].device))

    return mask


def let_through(module: Any, given: tuple[torch.Tensor, ...], made: torch.Tensor) -> torch.Tensor:
    """Mark where a result is not 0; for a pooling, its sources."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad():
        if not isinstance(module, torch.nn.MaxPool2d):
            return (made != 0).cpu()
        pooling: Any = torch.nn.functional.max_pool2d_with_indices
        places: torch.Tensor = pooling(given[0], module.kernel_size, module.stride, module.padding)[1]
        return places.cpu()


def masked(module: Any, given: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Apply a layer to its input so that it passes what `mask` did.

    A ReLU's input within rounding of 0 can be on either side; both are right, and with few normalised samples
    the gradients behind them are far apart. Only there the mask decides.
    """
    import torch

    if isinstance(module, torch.nn.MaxPool2d):  # of two values within rounding of each other either can win
        return given.flatten(2).gather(2, mask.flatten(2)).view(mask.shape)
    if not isinstance(module, torch.nn.ReLU):
        dropped: torch.Tensor = given * mask / (1 - module.p)
        return dropped
    near = given.abs() < NEAR_ZERO * given.detach().square().mean().sqrt()
    return torch.where(near, given * mask, given.clamp_min(0))
