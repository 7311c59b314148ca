"""A step that does nothing, for the cost of everything around it."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload


@workload(n=(1,), tiny={"n": 1})
def nothing(env: Env, n: int) -> Prepared:
    numbers = env.rand(n + 1)
    return Prepared(
        step=lambda: numbers,
        inputs=(numbers,),
        reference=numbers.double,
        view=lambda out: out,
        units=1,
        unit="nothings",
        flops=1,
        bytes=4 * n,
        matmul_flops=0,
    )
