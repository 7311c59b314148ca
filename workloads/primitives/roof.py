"""The fastest matrix product that a search over m, n and k finds on the device: its compute roof."""

from dataclasses import replace

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import FP8, MODES, PRECISIONS
from workloads.harness.registry import workload
from workloads.harness.roofline.products import fastest_product
from workloads.primitives.gemm import gemm


@workload(
    side=(1024, 4096, 8192, 16_384),
    tiny={"side": 64},
    precisions=(*PRECISIONS, FP8),
    modes=MODES[:3],  # a product has nothing to fuse, so a compiled one is the same kernel in a graph
)
def roof(env: Env, side: int) -> Prepared:
    """Return c = a w' of the fastest m, n and k up to `side`.

    The first repeat searches, in eager mode, and the box caches the result. It is timed afresh, because the
    best of many samples is too good. Machines can have different products, so compare them by the rate.
    """
    with env.phase("search"):
        size = fastest_product(env.device, env.precision, side)
    product = gemm(env, *size)
    assert isinstance(product, Prepared)
    return replace(product, units=product.flops, unit="FLOP", chosen=size)
