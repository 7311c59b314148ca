"""A bound of a GPU's speed by its own figures, without a catalogue."""

from dataclasses import dataclass
from typing import Any

# FLOPs of one SM per cycle by compute capability, a fused multiply-add being two. fp32: CUDA C++ Programming
# Guide, arithmetic instructions. fp16: dense products on tensor cores, from the rates in data sheets over SMs
# and boost clock (V100 125, T4 65, A100 312, A10 125, L4 121, H100 989, B200 2250 TFLOP/s); before 7.0 twice
# fp32's.
RATES = {
    (5, 0): (256, 512),
    (5, 2): (256, 512),
    (5, 3): (256, 512),
    (6, 0): (128, 256),
    (6, 1): (256, 512),
    (7, 0): (128, 1024),
    (7, 2): (128, 1024),
    (7, 5): (128, 1024),
    (8, 0): (128, 2048),
    (8, 6): (256, 1024),
    (8, 7): (256, 2048),
    (8, 9): (256, 1024),
    (9, 0): (256, 4096),
    (10, 0): (256, 8192),
    (10, 3): (256, 8192),
    (12, 0): (256, 1024),
}


@dataclass(frozen=True, slots=True)
class GpuShape:
    """A GPU, or a MIG slice, as torch sees it."""

    capability: tuple[int, int]
    multiprocessors: int


def shape_of(device: int = 0) -> GpuShape | None:
    import torch

    if not torch.cuda.is_available():
        return None
    properties: Any = torch.cuda.get_device_properties(device)
    return GpuShape((properties.major, properties.minor), properties.multi_processor_count)


def gpu_flops_bound(shape: GpuShape | None, clock_max_mhz: float | None, precision: str) -> float | None:
    """Return a generous bound in FLOP/s at the GPU's highest clock; sparse products are not measured."""
    if shape is None or not clock_max_mhz or shape.capability not in RATES:
        return None
    fp32, half = RATES[shape.capability]
    tensor_cores = shape.capability >= (8, 0)
    tf32 = max(half // 2, fp32) if tensor_cores else fp32
    per_cycle = {"fp32": fp32, "tf32": tf32, "fp8": 2 * half}.get(precision, half)
    return float(shape.multiprocessors * per_cycle * clock_max_mhz * 1e6)
