"""Workloads that end badly: each repeat must still leave a record with the reason."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload


def doomed(env: Env, end) -> Prepared:
    """Honest while it is checked; `end` is called from the third step on, with its number."""
    x = env.randn(64, 64)
    calls = iter(range(1, 10**9))

    def step():
        if (call := next(calls)) >= 3:
            end(call)
        return x @ x

    return Prepared(
        step=step,
        inputs=(x,),
        reference=lambda: x.double() @ x.double(),
        view=lambda y: y,
        units=1,
        unit="products",
        flops=2 * 64**3,
        bytes=8 * 64**2,
        matmul_flops=2 * 64**3,
    )


def death(build):
    return workload(n=(64,), tiny={"n": 64})(build)


def note(text=""):
    """Leave a mark for the test: the process is alive and has come this far."""
    if path := os.environ.get("TEST_NOTE"):
        Path(path).write_text(text or str(os.getpid()))


@death
def raises(env, n):
    def end(call):
        raise KeyError("a key that\nis not there")

    return doomed(env, end)


@death
def raises_on_build(env, n):
    raise ZeroDivisionError("before it was built")


@death
def returns_no_tensor(env, n):
    return replace(doomed(env, print), step=lambda: 3.0)


@death
def exits(env, n):
    return doomed(env, lambda call: os._exit(3))


@death
def exits_politely(env, n):
    return doomed(env, lambda call: sys.exit("enough of this"))


@death
def aborts(env, n):
    return doomed(env, lambda call: os.abort())


@death
def hangs(env, n):
    def end(call):
        note()
        time.sleep(600)

    return doomed(env, end)


@workload(has_model=True, n=(64,), tiny={"n": 64})
def hangs_with_a_model(env, n):
    return hangs(env, n)


@death
def kills_its_parent(env, n):
    return doomed(env, lambda call: os.kill(os.getppid(), signal.SIGKILL))


@death
def stops_its_parent(env, n):
    os.kill(os.getppid(), signal.SIGSTOP)
    return doomed(env, lambda call: None)


@death
def hangs_beside_children(env, n):
    def end(call):
        if not (child := os.fork()):
            time.sleep(600)
        other = subprocess.Popen(["sleep", "600"])
        note(f"{os.getpid()} {child} {other.pid}")
        time.sleep(600)

    return doomed(env, end)


@death
def leaves_a_child(env, n):
    if not (child := os.fork()):
        time.sleep(600)
    note(str(child))
    return doomed(env, lambda call: None)


@death
def leaves_a_thread(env, n):
    threading.Thread(target=time.sleep, args=(600,)).start()
    return doomed(env, lambda call: None)


@death
def floods_stderr(env, n):
    for _ in range(200):
        print("x" * 99_999, file=sys.stderr)
    os.write(2, b"no end of a line" * 500_000)
    os.write(2, b"\xff\xfe not text\n")
    os._exit(4)


@death
def prints_garbage(env, n):
    print("{", "\x00", '{"schema": 1}', flush=True)
    os.write(1, b"\xff\xfe\n" * 1000)
    subprocess.run(["echo", "and from a child"], check=True)
    return doomed(env, lambda call: print("step", call))


@workload(gib=(1, 1_000_000), tiny={"gib": 1})
def allocates(env, gib):
    """Touch `gib` GiB in pieces of 64 MiB: all memory, if nothing stops it."""
    import torch

    pieces = []
    while len(pieces) * 64 < gib * 1024:
        pieces.append(torch.ones(4096, 4096))
    return doomed(env, lambda call: None)
