"""A step that sleeps: time that is known beforehand, for tests of everything around the measurement."""

import time

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload


@workload(ms=(2, 5), tiny={"ms": 1})
def nap(env: Env, ms: int) -> Prepared:
    """Sleep `ms` milliseconds and double a few numbers."""
    numbers = env.rand(64)

    def step():
        time.sleep(ms / 1e3)
        return numbers * 2

    return Prepared(
        step=step,
        inputs=(numbers,),
        reference=lambda: numbers.double() * 2,
        view=lambda out: out,
        units=1,
        unit="naps",
        flops=64,
        bytes=512,
        matmul_flops=0,
    )
