"""The process that repeats are forked from: it has imported torch once, and opens no device.

Its orders come through a socket from `workloads.harness.repeat.forks`, and it ends with that.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from workloads.harness.engine.phases import Phases, since_process_start_s
from workloads.harness.registry import import_built_in
from workloads.harness.repeat.exclusive import INHERITED
from workloads.harness.repeat.runs import be_killed_first, die_with_parent

ORDER_BYTES = 2**20
OUT, ERR = 1, 2
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
AROUND_BYTES = 2**16  # the kernel maps these bytes of a file at once, see fault_around_bytes
PRESENT = 1 << 63  # a bit of each entry of /proc/self/pagemap
Measure = Callable[[str, Phases], int]


def serve(options: argparse.Namespace, measure: Measure) -> int:
    phases = Phases(since_process_start_s())
    die_with_parent()
    be_killed_first()
    with phases("import"):
        import torch  # noqa: F401

        import_built_in()
        _stop_threads()
    return _serve(socket.socket(fileno=options.descriptor), phases, measure)


def _serve(connection: socket.socket, phases: Phases, measure: Measure) -> int:
    """As `serve`; only the first process counts the `phases` so far as its own."""
    spent_s, is_first = phases.with_inherited_s(), True
    while received := _received(connection):
        order, descriptors = received
        own = phases if is_first else Phases(inherited_s=spent_s)
        if why := _unfit({connection.fileno(), *descriptors}):
            _answer(connection, unfit=why)
            return 1
        with own("process_start"):
            pid = _forked(connection, descriptors)
        if not pid:
            return _begun(order, descriptors[-1], own, measure)
        _let_go(descriptors)
        _answer(connection, pid=pid)
        if order and connection.recv(ORDER_BYTES):
            _, status = os.waitpid(pid, 0)
            _answer(connection, code=os.waitstatus_to_exitcode(status))
        is_first = False
    return 0


def _begun(order: str, descriptor: int, phases: Phases, measure: Measure) -> int:
    if order:
        os.environ[INHERITED] = str(descriptor)
        return measure(order, phases)
    with phases("build"):  # of a model: a fresh process imports it then
        importlib.import_module("torch._dynamo")
    return _serve(socket.socket(fileno=descriptor), phases, measure)


def _received(connection: socket.socket) -> tuple[str, list[int]] | None:
    """Return the next order and its three descriptors, two of them streams.

    An order is a repeat as JSON, with its lock, or empty for a server of models, with the socket for its
    orders.
    """
    content, descriptors, _, _ = socket.recv_fds(connection, ORDER_BYTES, 3)
    return (json.loads(content), descriptors) if content else None


def _answer(connection: socket.socket, **content: object) -> None:
    connection.send(json.dumps(content).encode())


def _let_go(descriptors: Collection[int]) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (OUT, ERR):
        os.dup2(nothing, stream)
    for descriptor in (nothing, *descriptors):
        os.close(descriptor)


def _stop_threads() -> None:
    """Fork once: numpy's OpenBLAS ends its threads before a fork, and restarts them on demand."""
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)


def _unfit(allowed: Collection[int]) -> str:
    import torch

    cuda: Any = torch.cuda  # torch has no types for it
    if cuda.is_initialized():
        return "importing torch has opened a GPU"
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        return f"importing torch has started {threads - 1} threads"
    names = {}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > ERR and descriptor not in allowed:
            with suppress(OSError):  # the one by which the folder was read
                names[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
    return f"importing torch has opened {', '.join(sorted(names.values()))}" if names else ""


def _forked(connection: socket.socket, descriptors: list[int]) -> int:
    """Fork a session leader that dies with this process; return 0 there, its id here."""
    gc.collect()
    gc.freeze()  # or the first collection of each process would copy every page with an object
    addresses, server = _resident_files(), os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ready, is_ready = os.pipe()
    if pid := os.fork():
        os.close(is_ready)
        os.read(ready, 1)  # returns at the end of the pipe
        os.close(ready)
        return pid
    os.setsid()
    die_with_parent()
    if os.getppid() != server:
        os._exit(1)
    connection.close()
    for descriptor, stream in zip(descriptors, (OUT, ERR), strict=False):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    _draw_anew()
    for address in addresses:
        ctypes.string_at(address, 1)
    os.close(ready)
    os.close(is_ready)
    return 0


def _draw_anew() -> None:
    """Give numpy and torch fresh random states, as in a fresh process; Python's `random` does so itself."""
    import numpy
    import torch

    numpy.random.seed()
    torch.default_generator.seed()


def _resident_files() -> list[int]:
    """Return an address in each piece of a file, such as a library, in memory.

    A fork does not map these pages, so a process must read them; otherwise its peak of memory would be
    smaller than a fresh process's.
    """
    addresses: list[int] = []
    with suppress(OSError), open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for start, end in _mapped_files():
            addresses += _present(pages, start, end)
    return addresses


def _mapped_files(maps: Path = Path("/proc/self/maps")) -> Iterator[tuple[int, int]]:
    for line in maps.read_text().splitlines():
        span, rights, _, _, inode, *_ = line.split()
        if rights.startswith("r") and inode != "0":
            start, _, end = span.partition("-")
            yield int(start, 16), int(end, 16)


def _present(pages: IO[bytes], start: int, end: int) -> list[int]:
    import numpy

    pages.seek(start // PAGE_BYTES * 8)
    entries = numpy.frombuffer(pages.read((end - start) // PAGE_BYTES * 8), dtype=numpy.uint64)
    addresses = start + numpy.flatnonzero(entries & PRESENT) * PAGE_BYTES
    _, firsts = numpy.unique(addresses // AROUND_BYTES, return_index=True)
    return [int(address) for address in addresses[firsts]]
