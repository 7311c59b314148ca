"""Product of activations with the weights of a layer, square or skinny, as language models are made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import FP8, MODES, PRECISIONS
from workloads.harness.registry import workload
from workloads.harness.roofline.products import product_in

if TYPE_CHECKING:
    import torch

SHOWN = 64  # rows and columns that are checked


@workload(
    m=(1, 16, 4096, 8192, 16_384),
    n=(4096, 8192, 16_384),
    k=(4096, 8192, 16_384),
    tiny={"m": 16, "n": 64, "k": 32},
    elements=lambda m, n, k: m * k + n * k + m * n,
    flops=lambda m, n, k: 2 * m * n * k,
    precisions=(*PRECISIONS, FP8),
    modes=MODES,
)
def gemm(env: Env, m: int, n: int, k: int) -> Prepared:
    """Return c = a w' for m activations of k values and n x k weights.

    With m of 4096 and more it is the compute roof. At m = 1 its bound is the memory's bandwidth, or one
    core's where torch uses only one. In fp8 (E4M3) the product is in bf16, and its scales are one; n and k
    must be multiples of 16 then.
    """
    a, weights = env.randn(m, k), env.randn(n, k)
    rows, columns = env.draw(m, SHOWN), env.draw(n, SHOWN)

    def reference() -> torch.Tensor:
        seen = (a.half(), weights.half()) if env.precision == FP8 else (a, weights)  # torch indexes no fp8
        left, right = seen[0][rows].cpu().double(), seen[1][columns].cpu().double()
        return left @ right.T

    called = env.compiled(product_in(env.precision, env.device))
    return Prepared(
        step=lambda: called(a, weights),
        inputs=(a, weights),
        reference=reference,
        view=lambda c: c[rows][:, columns],
        units=1,
        unit="products",
        flops=2 * m * n * k,
        bytes=(m * k + n * k) * a.element_size() + m * n * (2 if env.precision == FP8 else a.element_size()),
        matmul_flops=2 * m * n * k,
    )
