"""The same matrix product on every device of a machine at once, and on each alone: power and heat of a full box."""

from __future__ import annotations

from dataclasses import replace

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import FP8, PRECISIONS
from workloads.harness.registry import workload
from workloads.primitives.gemm import gemm


@workload(
    n=(4096, 8192, 16_384),
    processes=(2, 4, 8, 16),
    tiny={"n": 64, "processes": 2},
    scaling="weak",
    all_gpus=True,
    elements=lambda n, processes: 3 * n * n,
    flops=lambda n, processes: 2 * n**3 * processes,
    precisions=(*PRECISIONS, FP8),
)
def matmul_weak(env: Env, n: int, processes: int) -> Prepared:
    """Return c = a w' of n x n values by several processes at once.

    A step takes as long as the slowest process needs.
    """
    product = gemm(env, n, n, n)
    assert isinstance(product, Prepared)
    return replace(
        product,
        units=processes,
        flops=processes * product.flops,
        bytes=processes * product.bytes,
        matmul_flops=processes * product.matmul_flops,
        alone=True,
    )
