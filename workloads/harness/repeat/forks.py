"""Fork repeats from a process with torch imported, to start in milliseconds.

The fork server (`workloads.command.fork_server`) opens no device, starts no thread and runs no user code.
Processes of Python's `multiprocessing.forkserver` would first import the client's main module, such as
Prefect's engine.
"""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from workloads.harness.probes.code import code_hash
from workloads.harness.probes.cpu import affinity
from workloads.harness.records.case import Cell
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find
from workloads.harness.repeat.exclusive import INHERITED
from workloads.harness.repeat.runs import COMMAND, PARENT, Running, Say, readable, waits_for_end

START_S = 120.0  # torch takes seconds to import, on a cold disk a minute
REAP_S = 20.0
LONGEST_ANSWER = 2**16  # bytes
FEWEST = 2  # cells: a server that forks once costs as much as a fresh process


Streams = tuple[int, int]  # standard output and standard error


class NoForkError(Exception):
    """A fork server did not provide a process."""


class ForkedProcess:
    """A process that a fork server has forked, used like `subprocess.Popen`."""

    def __init__(self, server: "ForkServer", pid: int, stdout: IO[str], stderr: IO[str]) -> None:
        """Take over a process, or raise OSError without a handle of it; its server must then be closed."""
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None
        self._server = server
        self._handle = os.pidfd_open(pid)  # now: later, this process can have too many open files

    def poll(self) -> int | None:
        if self.returncode is None and readable((self._handle,), 0):
            self._reap()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal, or raise subprocess.TimeoutExpired.

        Without a `timeout` in seconds, the process must have ended or been killed.
        """
        if self.returncode is None:
            if timeout is not None and not readable((self._handle,), timeout):
                raise subprocess.TimeoutExpired("a forked process", timeout)
            self._reap()
        assert self.returncode is not None
        return self.returncode

    def _reap(self) -> None:
        self.returncode = self._server.reap(self.pid)
        os.close(self._handle)


class ForkServer:
    """The client's end of a fork server, which serves one process at a time."""

    def __init__(
        self, environ: Mapping[str, str], streams: Streams, parent: "ForkServer | None" = None
    ) -> None:
        """Start a server, or have a `parent` fork one for models.

        While it imports, its output goes to the streams of its first process.
        """
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its, ExitStack() as until_started:
            until_started.callback(self._socket.close)
            if parent:
                pid = parent.fork("", (*streams, its.fileno()))
            else:
                self._process = _started(environ, streams, its.fileno())
                until_started.callback(_end, self._process)
                pid = self._process.pid
            self._handle = os.pidfd_open(pid)
            until_started.pop_all()

    def fork(self, order: str, descriptors: Iterable[int]) -> int:
        self._socket.settimeout(START_S)
        answer = b""
        try:
            socket.send_fds(self._socket, [json.dumps(order).encode()], [*descriptors])
            answer = self._socket.recv(LONGEST_ANSWER)
        except TimeoutError:
            raise NoForkError(f"their common process does not answer within {START_S:g} s") from None
        except ConnectionError:
            pass
        if not answer:
            raise NoForkError("their common process has ended")
        content = json.loads(answer)
        if "unfit" in content:
            raise NoForkError(content["unfit"])
        return int(content["pid"])

    def reap(self, pid: int) -> int:
        """Reap an ended process; return its exit code, negative for a signal.

        A server that is gone has taken its process along, by SIGKILL. One that does not answer is killed.
        """
        with suppress(OSError):
            self._socket.settimeout(REAP_S)
            self._socket.send(b"reap")
            if answer := self._socket.recv(LONGEST_ANSWER):
                return int(json.loads(answer)["code"])
        self.kill()
        waits_for_end(pid, REAP_S)
        return -signal.SIGKILL

    @property
    def has_ended(self) -> bool:
        return bool(readable((self._handle,), 0))

    def close(self) -> None:
        self._socket.close()
        self.kill()
        if self._process:
            _end(self._process)
        os.close(self._handle)

    def kill(self) -> None:
        with suppress(OSError):  # it has ended, or another thread has closed it
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def _started(environ: Mapping[str, str], streams: Streams, orders: int) -> subprocess.Popen[bytes]:
    out, err = streams
    return subprocess.Popen(
        [*COMMAND, "fork-server", str(orders)],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
        pass_fds=(orders,),
        env={**environ, PARENT: str(os.getpid())},
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(REAP_S)


class ForkServers:
    """A series' fork servers: one, and a second for models, forked by the first.

    Two repeats of a cell never come from the same server: a process draws its address layout and hash seed
    once, and they can move a time by percents. Servers are also replaced when anything that a process
    inherits has changed.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._is_on = hasattr(os, "pidfd_open")
        self._servers: dict[bool, ForkServer] = {}  # the one for models has the key True
        self._served: set[Cell] = set()
        self._inherits: tuple[object, ...] = ()

    def __enter__(self) -> "ForkServers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def of(cls, repeats: Iterable[Repeat], say: Say) -> "ForkServers":
        forks = cls(say)
        cells = {repeat.cell for repeat in repeats if repeat.script is None}
        forks._is_on = forks._is_on and len(cells) >= FEWEST
        return forks

    def start(self, repeat: Repeat, lock: int, environ: Mapping[str, str]) -> Running | None:
        if not self._is_on or repeat.script is not None:
            return None
        with ExitStack() as until_forked, ExitStack() as ends:
            (out, out_end), (err, err_end) = (_pipe(until_forked, ends) for _ in range(2))
            try:
                server = self._server_for(repeat, environ, (out_end, err_end))
                pid = server.fork(repeat.to_json(), (out_end, err_end, lock))
                process = ForkedProcess(server, pid, out, err)
            except (NoForkError, OSError) as error:
                self._say(f"from here on each repeat is a fresh process, because none can be forked: {error}")
                self._is_on = False
                self.close()
                return None
            until_forked.pop_all()
        return process

    def kill(self) -> None:
        for server in [*self._servers.values()]:
            server.kill()

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers, self._served = {}, set()

    def _server_for(self, repeat: Repeat, environ: Mapping[str, str], streams: Streams) -> ForkServer:
        own = {name: value for name, value in environ.items() if name not in (INHERITED, PARENT)}
        inherits = (own, *_inheritance())
        is_over = any(server.has_ended for server in self._servers.values())
        if is_over or repeat.cell in self._served or self._inherits != inherits:
            self.close()
        workload = find(repeat.case.workload)
        kinds = (False, True) if workload.has_model and not workload.in_group else (False,)
        for kind in kinds:
            if kind not in self._servers:
                self._servers[kind] = ForkServer(own, streams, self._servers.get(False))
        self._inherits = inherits
        self._served.add(repeat.cell)
        return self._servers[kinds[-1]]


def _inheritance() -> tuple[object, ...]:
    files = [Path("/proc/self") / name for name in ("limits", "cgroup")]
    texts = [file.read_text() if file.exists() else "" for file in files]
    scheduling = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    return os.getcwd(), code_hash(), affinity(), scheduling, *texts


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[IO[str], int]:
    out, end = os.pipe()
    writing.callback(os.close, end)
    return reading.enter_context(os.fdopen(out, errors="replace")), end
