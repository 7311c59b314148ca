"""Square matrix product in one precision: the compute roof of a device."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload


@workload(
    by_size="matrix",
    n=(1000, 2000, 5000, 8000, 10_000, 15_000),
    tiny={"n": 64},
    elements=lambda n: 3 * n * n,
    flops=lambda n: 2 * n**3,
)
def matmul(env: Env, n: int) -> Prepared:
    """c = a b for two n x n matrices of standard normal values."""
    a, b = env.randn(n, n), env.randn(n, n)
    rows = env.draw(n, 64)
    return Prepared(
        step=lambda: a @ b,
        inputs=(a, b),
        reference=lambda: a[rows].cpu().double() @ b.cpu().double(),
        view=lambda c: c[rows],
        units=1,
        unit="products",
        flops=2 * n**3,
        bytes=3 * n * n * a.element_size(),
        matmul_flops=2 * n**3,
    )
