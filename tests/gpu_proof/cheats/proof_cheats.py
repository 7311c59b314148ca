"""Workloads that must end badly on a GPU, each in its own way."""

import os
import signal

from workloads.harness.prepared import Prepared
from workloads.harness.registry import workload

N = 4096


def product(env, n, step, **changes):
    a = env.randn(n, n)
    bare = {
        "inputs": (a,),
        "reference": lambda: a[:4].cpu().double() @ a.cpu().double(),
        "view": lambda c: c[:4],
        "units": 1,
        "unit": "products",
        "flops": 2 * n**3,
        "bytes": 2 * n * n * a.element_size(),
        "matmul_flops": 2 * n**3,
    }
    return Prepared(step=lambda: step(a), **(bare | changes))


@workload(n=(1,), tiny={"n": 1})
def proof_oom(env, n):
    import torch

    torch.empty(2**42, dtype=torch.uint8, device=env.device)


@workload(n=(1,), tiny={"n": 1})
def proof_stream(env, n):
    import torch

    side, out = torch.cuda.Stream(), torch.empty(N, N, dtype=env.dtype, device=env.device)

    def step(a):
        with torch.cuda.stream(side):
            torch.mm(a, a, out=out)
        return out

    return product(env, N, step)


@workload(n=(1,), tiny={"n": 1})
def proof_killed(env, n):
    calls = iter(range(10**9))

    def step(a):
        if next(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return a @ a

    return product(env, 64, step)


@workload(n=(1,), tiny={"n": 1})
def proof_conv_oom(env, n):
    """A convolution without room for its workspace: cuDNN then finds no engine, and hides the reason."""
    import torch

    x = env.randn(32, 64, 256, 256)
    kernel = env.randn(64, 64, 3, 3)
    free, _ = torch.cuda.mem_get_info()
    room = x.numel() * x.element_size() + 2**26  # for the result, and next to nothing else
    taken = torch.empty(max(free - room, 0), dtype=torch.uint8, device=env.device)

    def step():
        return torch.nn.functional.conv2d(x, kernel, padding=1) if taken.numel() else None

    exact = lambda: torch.nn.functional.conv2d(x[:1].cpu().double(), kernel.cpu().double(), padding=1)  # noqa: E731
    flops = 2.0 * x.numel() * 64 * 9
    return Prepared(
        step, (x, kernel), exact, lambda y: y[:1], 1, "batches", flops, 2.0 * x.numel() * 4, flops
    )


@workload(n=(1,), processes=(2,), tiny={"n": 1, "processes": 2}, scaling="weak")
def proof_lost_rank(env, n, processes):
    import torch

    from workloads.harness.group.distributed import replicated
    from workloads.harness.training.layers import layer_flops
    from workloads.harness.training.training import Learner, as_exact

    model = env.model(lambda: torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)))
    x = env.randn(8, 64)
    replica = replicated(env, model)
    learner = Learner(env, model, lambda p: torch.optim.SGD(p, 1e-3))
    steps = iter(range(10**9))

    def step():
        if next(steps) == 20 and env.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return learner.learn(lambda: replica(x).square().mean())

    def exact():
        return learner.exact()(as_exact(x)).square().mean().detach()

    flops = layer_flops(model, x)[1] * processes
    parts = (step, (x,), exact, lambda loss: loss, 8.0 * processes, "rows", flops, flops, flops)
    return Prepared(*parts, reset=learner.reset, unexchanged=replica.no_sync)
