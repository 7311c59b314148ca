"""Bytes that kernels of a CPU take while they run, and those that libraries keep once they are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

HOST_DEVICE = torch.device("cpu")
# Seen in torch 2.13 on x86-64: resident memory before and after a model's first use.
META_BYTES = 83 * 2**20  # modules of Python that come with the first tensor on `meta`, as for counting FLOPs
ONEDNN_BYTES = 32 * 2**20  # code that oneDNN makes for convolutions each way, and the scratch that it keeps


def workspace_bytes(name: str, args: Any, made: Sequence[torch.Tensor]) -> int:
    """Return what an operation takes while it runs on the host; 0 on other devices, whose margin covers it.

    Args:
        name: of the operation, such as `convolution`.
        args: its arguments, in order.
        made: its results.
    """
    if made[0].device != HOST_DEVICE:
        return 0
    if name == "convolution":
        return _convolution(args[0], args[1], made[0])
    if name == "convolution_backward":
        return _convolution(args[1], args[2], args[0])
    return 0


def libraries_bytes(name: str, made: Sequence[torch.Tensor]) -> dict[str, int]:
    """Return what is kept from an operation on, by its cause; each counts once."""
    if any(tensor.device.type == "meta" for tensor in made):
        return {"meta": META_BYTES}
    if name.startswith("convolution") and made[0].device == HOST_DEVICE and made[0].dtype != torch.float64:
        return {name: ONEDNN_BYTES}
    return {}


def _convolution(images: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> int:
    """Return what a convolution takes: blocked copies for oneDNN; in float64 columns for a matrix product.

    A column has all pixels under the kernel, for one pixel of the result.
    """
    if images.dtype != torch.float64:
        return sum(t.numel() * t.element_size() for t in (images, weight, out))
    columns = weight[0].numel() * math.prod(out.shape[2:]) * out.shape[0]
    is_pointwise = math.prod(weight.shape[2:]) == 1 and images.shape[2:] == out.shape[2:]
    return 0 if is_pointwise else columns * images.element_size()
