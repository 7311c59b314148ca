"""Square matrix product in one precision: the compute roof of a device."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload

if TYPE_CHECKING:
    import torch

PART = 1024  # rows on the host at once, in float64: the whole can be twice a GPU's memory


@workload(
    by_size="matrix",
    n=(1000, 2000, 5000, 8000, 10_000, 15_000),
    tiny={"n": 64},
    elements=lambda n: 3 * n * n,
    flops=lambda n: 2 * n**3,
)
def matmul(env: Env, n: int) -> Prepared:
    import torch

    a, b = env.randn(n, n), env.randn(n, n)
    rows = env.draw(n, 64)

    def reference() -> torch.Tensor:
        starts = range(0, n, PART)
        parts = ((a[rows, start : start + PART], b[start : start + PART]) for start in starts)
        products = (left.cpu().double() @ right.cpu().double() for left, right in parts)
        return reduce(torch.Tensor.add, products)

    return Prepared(
        step=lambda: a @ b,
        inputs=(a, b),
        reference=reference,
        view=lambda c: c[rows],
        units=1,
        unit="products",
        flops=2 * n**3,
        bytes=3 * n * n * a.element_size(),
        matmul_flops=2 * n**3,
    )
