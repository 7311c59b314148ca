"""Workloads of known length: what the engine says of them can be held against the truth."""

import time

from workloads.harness.prepared import Prepared
from workloads.harness.registry import workload


def spinning(env, seconds_of_call) -> Prepared:
    """A step that takes as long as `seconds_of_call(number of the call)` says, to a microsecond."""
    x = env.randn(8)
    calls = iter(range(10**9))

    def step():
        end = time.perf_counter() + seconds_of_call(next(calls))
        y = x.clone()
        if (left := end - time.perf_counter()) > 4e-3:
            time.sleep(left - 3e-3)
        while time.perf_counter() < end:
            pass
        return y

    return Prepared(
        step=step,
        inputs=(x,),
        reference=lambda: x.double(),
        view=lambda y: y,
        units=3,
        unit="naps",
        flops=8,
        bytes=64,
        matmul_flops=0,
    )


@workload(us=(50, 10_000), tiny={"us": 50})
def sleeps(env, us):
    """Every step takes the same `us` microseconds."""
    return spinning(env, lambda call: us * 1e-6)


@workload(us=(1000,), tiny={"us": 1000})
def slow_start(env, us):
    """The first call takes 100 ms more, and the next twenty 2 ms more."""
    return spinning(env, lambda call: us * 1e-6 + (0.1 if call == 0 else 0.002 if call <= 20 else 0))


@workload(us=(1000,), tiny={"us": 1000})
def ever_slower(env, us):
    """Each call takes 1 % longer than the one before."""
    return spinning(env, lambda call: us * 1e-6 * 1.01 ** min(call, 400))


@workload(us=(1000,), tiny={"us": 1000})
def restless(env, us):
    """Calls take one or two milliseconds, by no rule that a median could settle on."""
    return spinning(env, lambda call: us * 1e-6 * (1 + (call * 7919 % 101) / 100))


@workload(ms=(300,), tiny={"ms": 300})
def slow_to_build(env, ms):
    """Building takes `ms` milliseconds."""
    time.sleep(ms / 1e3)
    return spinning(env, lambda call: 1e-3)


@workload(us=(1000,), tiny={"us": 1000}, layouts=("contiguous", "channels_last"))
def layouts_differ(env, us):
    """Twice as long in the first layout as in the second."""
    return spinning(env, lambda call: us * (2e-6 if env.layout == "contiguous" else 1e-6))
