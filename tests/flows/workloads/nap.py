"""Steps that sleep a known time, for tests of everything around the measurement."""

import os
import time

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload


def _sleeping(env: Env, wait_s: float) -> Prepared:
    numbers = env.rand(64)

    def step():
        time.sleep(wait_s)
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


@workload(ms=(2, 5), tiny={"ms": 1})
def nap(env: Env, ms: int) -> Prepared:
    return _sleeping(env, ms / 1e3)


@workload(ms=(2, 5), tiny={"ms": 1})
def doze(env: Env, ms: int) -> Prepared:
    return _sleeping(env, ms / 1e3 * float(os.environ.get("DOZE_FACTOR", "1")))
