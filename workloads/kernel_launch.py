"""Many tiny kernels, each waiting for the one before: what handing over one operation takes."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload

ELEMENTS = 64  # hardly any work, and enough values for the check


@workload(kernels=(10, 100, 1000), tiny={"kernels": 10})
def kernel_launch(env: Env, kernels: int) -> Prepared:
    """Negate 64 values `kernels` times: seconds / kernels is a launch's latency.

    On a CPU it is torch's time to find and call one operator. Negation is exact in every precision.
    """
    import torch

    values = env.randn(ELEMENTS)
    out = torch.empty_like(values)

    def step() -> torch.Tensor:
        torch.neg(values, out=out)
        for _ in range(kernels - 1):
            out.neg_()
        return out

    size = values.numel() * values.element_size()
    return Prepared(
        step=step,
        inputs=(values,),
        reference=lambda: values.cpu().double() * (-1) ** kernels,
        view=lambda result: result,
        units=kernels,
        unit="kernels",
        flops=0,
        bytes=2 * size,  # compulsory: in between it stays in the cache
        matmul_flops=0,
    )
