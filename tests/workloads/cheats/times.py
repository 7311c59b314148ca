"""Workloads of known length, to compare the engine's times with the truth.

They sleep by the clock that the engine reads, so that a test can put a virtual one beneath both.
"""

from workloads.harness.engine import clock
from workloads.harness.prepared import Prepared
from workloads.harness.registry import workload

SLEPT_S = []  # what every call took in truth, which on a busy box is more than it asked for


def sleeping(env, seconds_of_call) -> Prepared:
    x = env.randn(8)
    calls = iter(range(10**9))

    def step():
        began = clock.time.perf_counter()
        clock.time.sleep(seconds_of_call(next(calls)))
        SLEPT_S.append(clock.time.perf_counter() - began)
        return x.clone()

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
    return sleeping(env, lambda call: us * 1e-6)


@workload(us=(1000,), tiny={"us": 1000})
def slow_start(env, us):
    return sleeping(env, lambda call: us * 1e-6 + (0.1 if call == 0 else 0.002 if call <= 20 else 0))


@workload(us=(1000,), tiny={"us": 1000})
def ever_slower(env, us):
    return sleeping(env, lambda call: us * 1e-6 * 1.01 ** min(call, 1000))


@workload(us=(20_000,), tiny={"us": 20_000})
def restless(env, us):
    """Calls take once to twice as long, by no rule that a median could settle on."""
    return sleeping(env, lambda call: us * 1e-6 * (1 + (call * 7919 % 101) / 100))


@workload(ms=(300,), tiny={"ms": 300})
def slow_to_build(env, ms):
    clock.time.sleep(ms / 1e3)
    return sleeping(env, lambda call: 1e-3)


def in_two_layouts(build):
    return workload(us=(1000,), tiny={"us": 1000}, layouts=("contiguous", "channels_last"))(build)


@in_two_layouts
def faster_in_channels_last(env, us):
    return sleeping(env, lambda call: us * (2e-6 if env.layout == "contiguous" else 1e-6))


@in_two_layouts
def faster_in_contiguous(env, us):
    return sleeping(env, lambda call: us * (1e-6 if env.layout == "contiguous" else 2e-6))


@in_two_layouts
def alike_in_both(env, us):
    """The difference is too small to leave the usual layout."""
    return sleeping(env, lambda call: us * (1e-6 if env.layout == "contiguous" else 0.97e-6))
