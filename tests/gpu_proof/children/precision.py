"""Print the relative errors of a matrix product and a convolution in fp32 or tf32, and torch's switches."""

import json
import sys
from collections.abc import Callable


def errors(device: str, precision: str) -> dict[str, float]:
    import torch
    from torch.nn import functional

    from workloads.harness.engine.device import open_device

    place = open_device(device, precision, 2).torch_device
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(512, 512, generator=generator) for _ in "ab")
    x = torch.randn(8, 64, 32, 32, generator=generator)
    kernel = torch.randn(64, 64, 3, 3, generator=generator)

    def error(result: torch.Tensor, exact: torch.Tensor) -> float:
        return float((result.cpu().double() - exact).norm() / exact.norm())

    convolved = functional.conv2d(x.to(place), kernel.to(place), padding=1)
    exact = functional.conv2d(x.double(), kernel.double(), padding=1)
    return {
        "matmul": error(a.to(place) @ b.to(place), a.double() @ b.double()),
        "conv": error(convolved, exact),
    }


def switches() -> dict[str, str]:
    """Read every switch that other code reads: Inductor's cache key and flex_attention read the old ones."""
    import torch

    reads: dict[str, Callable[[], object]] = {
        "get_float32_matmul_precision": torch.get_float32_matmul_precision,
        "cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cudnn.allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "cudnn.flags": lambda: torch.backends.cudnn.flags(enabled=True).__enter__(),
    }
    return {name: _read(read) for name, read in reads.items()}


def _read(read: Callable[[], object]) -> str:
    try:
        return str(read())
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:80]}"


if __name__ == "__main__":
    print(json.dumps({"errors": errors(*sys.argv[1:3]), "switches": switches()}))
