"""Time the same operations by the harness, torch's Timer, triton's do_bench and a CUDA graph, in turns.

One process, three rounds. Prints medians in seconds by operation and clock, the reason for each missing
clock, and the ratio of our wall time to Timer's. That ratio is of turns of 10 ms each, because a host's speed
can change by a third within a second.
"""

import importlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

ROUNDS, REPLAYED = 3, 20
TURNS, TURN_S = 60, 0.01
Operation = Callable[[], Any]


def operations(place: Any, on_gpu: bool) -> Iterator[tuple[str, Operation]]:
    import torch

    half = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float32
    for n in (1024, 4096, 8192) if on_gpu else (256,):
        a, b = (torch.randn(n, n, dtype=half, device=place) for _ in "ab")
        yield f"matmul{n}", lambda a=a, b=b: a @ b
    x = torch.randn(64, device=place)
    yield "neg64", lambda: x.neg_()
    net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)]).to(place)
    rows = torch.randn(8, 64, device=place)
    yield "net20", lambda: net(rows)
    if on_gpu:
        yield from _only_cuda(torch)


def _only_cuda(torch: Any) -> Iterator[tuple[str, Operation]]:
    source, target = torch.rand(2**28, device="cuda"), torch.empty(2**28, device="cuda")
    yield "copy1GiB", lambda: target.copy_(source)
    for name, cycles in (("sleep", 2_000_000), ("sleep2", 4_000_000)):
        yield name, lambda cycles=cycles: torch.cuda._sleep(cycles)


def graphed(operation: Operation) -> Operation:
    """Capture the operation several times: a replay leaves out Python's time."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            operation()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPLAYED):
            operation()
    return graph.replay


def by_others(operation: Operation, on_gpu: bool, missing: dict[str, str]) -> dict[str, float]:
    from torch.utils.benchmark import Timer

    timer = Timer("f()", globals={"f": operation}, num_threads=2)
    seconds = {"timer": timer.blocked_autorange(min_run_time=0.3).median}
    return seconds | by_triton(operation, missing) if on_gpu else seconds


def wall_over_timer(operation: Operation, clock: Any) -> float:
    """Return the median ratio of the harness's wall time to Timer's, of adjacent turns."""
    from torch.utils.benchmark import Timer

    timer = Timer("f()", globals={"f": operation}, num_threads=2)
    count = max(int(TURN_S / max(clock.time(operation, 3).wall_s / 3, 1e-7)), 1)
    ratios = []
    for turn in range(TURNS):
        ours, theirs = (
            (lambda: clock.time(operation, count).wall_s / count),
            (lambda: timer.timeit(count).mean),
        )
        first, second = (ours, theirs) if turn % 2 else (theirs, ours)
        one, other = first(), second()
        ratios.append(one / other if turn % 2 else other / one)
    return statistics.median(ratios)


def by_triton(operation: Operation, missing: dict[str, str]) -> dict[str, float]:
    """Time by `do_bench`, unless it failed before: its driver needs a C compiler."""
    if "do_bench" in missing:
        return {}
    try:
        testing = importlib.import_module("triton.testing")  # torch brings it, for Linux
        return {"do_bench": testing.do_bench(operation, warmup=100, rep=300, return_mode="median") / 1e3}
    except Exception as error:
        missing["do_bench"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return {}


def by_us(operation: Operation, clock: Any) -> dict[str, float]:
    from workloads.harness.engine.phases import Phases
    from workloads.harness.engine.sampling.rules import Rules
    from workloads.harness.engine.timing import time_step

    timed = time_step(operation, clock, Rules().quick(), Phases())
    return {"wall": timed.wall.median_s, "device": (timed.device_time or timed.wall).median_s}


def replayed(operation: Operation, clock: Any) -> dict[str, float]:
    return {"graph": clock.time(graphed(operation), REPLAYED).device_s / REPLAYED**2}


def compared(device: str) -> dict[str, Any]:
    import torch

    from workloads.harness.engine.device import open_device

    on_gpu, opened = device == "cuda", open_device(device, "fp32", 2)
    medians: dict[str, dict[str, float]] = {}
    missing: dict[str, str] = {}
    ratios: dict[str, float] = {}
    for name, operation in operations(opened.torch_device, on_gpu):
        rounds: dict[str, list[float]] = {}
        with torch.inference_mode():
            for _ in range(ROUNDS if on_gpu else 1):
                seconds = by_us(operation, opened.clock) | by_others(operation, on_gpu, missing)
                if on_gpu and not name.startswith("sleep"):
                    seconds |= replayed(operation, opened.clock)
                for clock, value in seconds.items():
                    rounds.setdefault(clock, []).append(value)
            ratios[name] = wall_over_timer(operation, opened.clock)
        medians[name] = {clock: statistics.median(values) for clock, values in rounds.items()}
    return {"seconds": medians, "missing": missing, "wall_over_timer": ratios}


if __name__ == "__main__":
    print(json.dumps(compared(sys.argv[1])))
