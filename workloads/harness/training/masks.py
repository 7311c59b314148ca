"""What dropout, ReLU and pooling let through: a reference does the same, where either side is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NEAR_ZERO = 0.1  # of the root mean square: further off no rounding makes a ReLU's input change its sign


def is_masking(module: torch.nn.Module) -> bool:
    """Return whether a layer lets a part of its input through: dropout, ReLU, pooling."""
    import torch

    return isinstance(module, (torch.nn.modules.dropout._DropoutNd, torch.nn.ReLU, torch.nn.MaxPool2d))


def let_through(module: Any, given: tuple[torch.Tensor, ...], made: torch.Tensor) -> torch.Tensor:
    """Mark where a result is not 0; for a pooling, where it took its results from. It is not counted."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad():
        if not isinstance(module, torch.nn.MaxPool2d):
            return (made != 0).cpu()
        pooling: Any = torch.nn.functional.max_pool2d_with_indices
        places: torch.Tensor = pooling(given[0], module.kernel_size, module.stride, module.padding)[1]
        return places.cpu()


def masked(module: Any, given: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Apply a dropout, ReLU or pooling to its input so that it lets through what `mask` did.

    A ReLU's input that lies within rounding of 0 may be on either side of it; both are right, and where few
    samples are normalised the gradients behind them are far apart. So only there the mask decides.
    """
    import torch

    if isinstance(module, torch.nn.MaxPool2d):  # of two values within rounding of each other either may win
        return given.flatten(2).gather(2, mask.flatten(2)).view(mask.shape)
    if not isinstance(module, torch.nn.ReLU):
        dropped: torch.Tensor = given * mask / (1 - module.p)
        return dropped
    near = given.abs() < NEAR_ZERO * given.detach().square().mean().sqrt()
    return torch.where(near, given * mask, given.clamp_min(0))
