"""Environments of workloads: a device, a precision and a seed."""

from workloads.harness.prepared import Env


def environment(precision="fp32", layout="contiguous", seed=0):
    import torch

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    generator = torch.Generator().manual_seed(seed)
    return Env(torch.device("cpu"), dtype, layout, generator, lambda t: t, precision)
