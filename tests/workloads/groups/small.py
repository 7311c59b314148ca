"""Groups of processes on a tiny model, most of which end badly."""

import os
import signal
import sys
import time
from pathlib import Path

from workloads.harness.prepared import Env, Job, JobResult, Prepared
from workloads.harness.registry import workload

WIDE, BATCH = 64, 8
BAD_RANK = 1
BAD_STEP = 20  # by then the times are being taken


def learns(env: Env, end=lambda step: None, exchanges=True) -> Prepared:
    """Return a linear model with DDP, a batch a rank; `end` is called on one rank from a step on."""
    import torch

    from workloads.harness.group.distributed import check_exchange, replicated
    from workloads.harness.training.layers import layer_flops, parameter_count
    from workloads.harness.training.training import Learner, as_exact

    model = env.model(lambda: torch.nn.Sequential(torch.nn.Linear(WIDE, WIDE), torch.nn.Linear(WIDE, 1)))
    x = torch.randn(BATCH * env.world, WIDE, generator=env.generator)[env.rank :: env.world].contiguous()
    replica = replicated(env, model) if exchanges else model
    learner = Learner(env, model, lambda p: torch.optim.SGD(p, 1e-3))
    steps = iter(range(1, 10**9))

    def step():
        number = next(steps)
        if env.rank == BAD_RANK and number >= BAD_STEP:
            end(number)
        return learner.learn(lambda: replica(x).square().mean())

    def reference():
        check_exchange(model)
        return learner.exact()(as_exact(x)).square().mean().detach()

    flops = layer_flops(model, x)[1] * env.world
    return Prepared(
        step=step,
        inputs=(x,),
        reference=reference,
        view=lambda loss: loss,
        units=BATCH * env.world,
        unit="rows",
        flops=flops,
        bytes=8.0 * parameter_count(model) * env.world,
        matmul_flops=flops,
        reset=learner.reset,
        parameters=parameter_count(model),
        unexchanged=replica.no_sync if exchanges else None,
    )


def group(build):
    scaling = "strong" if build.__name__ == "small_strong" else "weak"
    return workload(n=(64,), processes=(1, 2), tiny={"n": 64, "processes": 2}, scaling=scaling)(build)


def note():
    if path := os.environ.get("TEST_NOTE"):
        (Path(path) / str(os.getpid())).write_text(os.environ["RANK"])


@group
def small_weak(env, n, processes):
    note()
    return learns(env)


@group
def small_strong(env, n, processes):
    return learns(env)


@group
def goes_on(env, n, processes):
    def end(step):
        note()
        time.sleep(0.05)

    return learns(env, end)


@group
def forgets_to_exchange(env, n, processes):
    return learns(env, exchanges=False)


@group
def one_is_killed(env, n, processes):
    return learns(env, lambda step: os.kill(os.getpid(), signal.SIGKILL))


@group
def one_is_stopped(env, n, processes):
    note()
    return learns(env, lambda step: os.kill(os.getpid(), signal.SIGSTOP))


@group
def one_sleeps(env, n, processes):
    note()
    return learns(env, lambda step: time.sleep(600))


@group
def one_spins(env, n, processes):
    def end(step):
        while True:
            pass

    return learns(env, end)


@group
def one_raises(env, n, processes):
    return learns(env, lambda step: {}["a key"])


@group
def one_exits(env, n, processes):
    return learns(env, lambda step: os._exit(3))


@group
def one_runs_out_of_memory(env, n, processes):
    import torch

    return learns(env, lambda step: torch.empty(2**50))


@group
def all_raise(env, n, processes):
    raise ZeroDivisionError("before it was built")


@group
def one_dies_early(env, n, processes):
    if env.rank == BAD_RANK:
        sys.exit(5)
    return learns(env)


@group
def small_job(env, n, processes):
    """Steps of known length: the second rank is slower by 0.1 s."""
    from workloads.harness.group.ranks import stepped
    from workloads.nets.diffusion import Trace

    def run():
        trace = Trace(env.device, 3, every=2)
        for _ in range(3):
            time.sleep(0.1 * (1 + env.rank))
            trace.step_ended()
            stepped()
        return JobResult((3.0, 2.0, 1.0), "loss", 1.0, 2.0, False, trace.step_s(), trace.memory())

    return Job(run, lambda: None, 3.0 * processes, "rows", 1.0, 1.0, 0.0)
