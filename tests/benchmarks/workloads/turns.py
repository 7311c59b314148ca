"""Steps of other workloads, timed by block whenever a socket requests one: see `tests.benchmarks.forks`."""

import gc
import os
import socket
import time
from pathlib import Path

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import find, workload

CASES = (
    ("gemm", {"m": 512, "n": 512, "k": 512}),
    ("kernel_launch", {"kernels": 1000}),
    ("memory_bandwidth", {"mib": 64}),
    ("simple_cnn_train", {"batch": 1}),
    ("transformer_train", {"width": 256, "length": 64, "batch": 2}),
)
NUMBERS = tuple(range(len(CASES)))
ASKS = "GRIDBENCH_TURNS"  # the path of the socket
BLOCK_S = 0.008


def serve(env: Env, number: int) -> Prepared:
    """Time a block for each byte, and send the seconds of a step; end with the socket."""
    name, size = CASES[number]
    step = find(name).build(env, **size).step
    step()
    count, seconds = 1, _block_s(step, 1)
    while seconds < BLOCK_S:
        count *= 2
        seconds = _block_s(step, count)
    gc.collect()
    gc.freeze()
    gc.disable()
    with socket.socket(socket.AF_UNIX) as asks:
        asks.connect(os.environ[ASKS])
        asks.sendall(b"1" if b"fork-server" in Path("/proc/self/cmdline").read_bytes() else b"0")
        while asks.recv(1):
            asks.sendall(f"{_block_s(step, count) / count}\n".encode())
    raise SystemExit


def _block_s(step, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        step()
    return time.perf_counter() - started


@workload(number=NUMBERS, tiny={"number": 0})
def in_turns(env: Env, number: int) -> Prepared:
    return serve(env, number)


@workload(has_model=True, number=NUMBERS, tiny={"number": 0})
def model_in_turns(env: Env, number: int) -> Prepared:
    return serve(env, number)
