"""The server of a command: start it, wait for it, and stop all of its processes."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from workloads.harness.engine.phases import Phases
from workloads.harness.probes.memory import oom_kills
from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.printable import printable
from workloads.harness.records.program import Serving, ServingRun
from workloads.harness.records.record import Verdict
from workloads.harness.records.verdict import Finding
from workloads.harness.repeat.runs import LAST_S, finding_of_end, stop, waits_for_end
from workloads.harness.script.processes import StreamEnd, last_lines, start_program, watched

ANSWER_S = 2.0  # in which an address answers
LOOK_S = 0.1  # between two questions whether a server is ready
TO_END_S = 5.0  # in which a server ends by itself when it is asked to
# It outlives the process that holds the other end of its input, and kills a group of processes then.
GUARD = ("sh", "-c", 'read -r _; kill -9 "-$1"', "sh")
_OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({})
)  # a proxy does not know this machine's ports


@dataclass(slots=True)
class LiveServer:
    """A server that was started.

    Attributes:
        handle: a descriptor that is readable once its process has ended.
        kills: earlier out-of-memory kills by the kernel.
        peak_bytes: peak resident memory of its processes together.
        ready_s: seconds until it was ready; None before.
    """

    serving: Serving
    process: subprocess.Popen[bytes]
    output: StreamEnd
    handle: int
    kills: int | None
    started_s: float
    peak_bytes: int = 0
    ready_s: float | None = None

    def fileno(self) -> int:
        return self.handle

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def lines(self) -> list[str]:
        return last_lines(bytes(self.output.kept).decode(errors="replace"))

    def run(self) -> ServingRun:
        code = self.process.poll()
        return ServingRun(self.serving.command, self.ready_s, code, tuple(self.lines))

    def end(self, case: Case, when: str) -> Finding:
        """Return the finding about its end; `when` is a clause."""
        self.output.thread.join(LAST_S)
        is_oom = oom_kills() != self.kills
        verdict, text = finding_of_end(case, "the server", self.process.returncode, self.lines, is_oom)
        return verdict, f"{text}, {when}"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def served(
    serving: Serving,
    case: Case,
    environ: Mapping[str, str],
    folder: str,
    ends_s: float,
    phases: Phases,
    findings: list[Finding],
) -> Iterator[LiveServer | None]:
    """Start a server and wait until it is ready; afterwards stop all processes of its group.

    A server that cannot start or is not ready by `ends_s` is a finding.
    """
    with ExitStack() as stack:
        server = None
        with phases("server_start"):
            try:
                server = stack.enter_context(_running(serving, environ, folder))
                findings += _wait(server, case, ends_s)
            except WorkloadsError as error:
                findings.append((Verdict.UNSUPPORTED, str(error)))
        yield server
        with phases("server_stop"):
            stack.close()


@contextmanager
def _running(serving: Serving, environ: Mapping[str, str], folder: str) -> Iterator[LiveServer]:
    """Start a server, and end its group afterwards, also if this process is killed."""
    if not reply(serving.ready, ANSWER_S):
        raise WorkloadsError(
            f"{serving.ready} answers before the server is started: write {{port}} for a port that is free"
        )
    kills = oom_kills()
    process = start_program(serving.command, environ, folder, subprocess.STDOUT)
    guard = subprocess.Popen(
        [*GUARD, str(process.pid)], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    output = StreamEnd(process.stdout)
    output.thread.start()
    handle = os.pidfd_open(process.pid)
    try:
        yield LiveServer(serving, process, output, handle, kills, time.perf_counter())
    finally:
        _end_by_itself(process)
        guard.kill()  # before the number of the group is free
        stop(process, has_ended=False)
        guard.wait()
        for stream in (guard.stdin, process.stdout):
            _close(stream)
        os.close(handle)


def _end_by_itself(process: subprocess.Popen[bytes]) -> None:
    """Ask a server to end, so that it can remove its files and shared memory."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        # Its number stays its own until `stop` has killed the rest of its group.
        with suppress(OSError, AttributeError):
            waits_for_end(process.pid, TO_END_S)


def _close(stream: IO[bytes] | None) -> None:
    with suppress(OSError):
        if stream:
            stream.close()


def _wait(server: LiveServer, case: Case, ends_s: float) -> list[Finding]:
    serving = server.serving
    last_s = min(ends_s, server.started_s + serving.ready_timeout_s)
    answer = ""
    with watched([server.process.pid], server):
        while (now_s := time.perf_counter()) < last_s:
            if server.has_ended:
                return [server.end(case, "before it was ready")]
            if not (answer := reply(serving.ready, min(ANSWER_S, last_s - now_s))):
                server.ready_s = time.perf_counter() - server.started_s
                return []
            waits_for_end(server.process.pid, LOOK_S)
    words = f" ({lines[-1]})" if (lines := server.lines) else ""
    after = f"after {now_s - server.started_s:.4g} s"
    return [(Verdict.TIMEOUT, f"the server is not ready {after}: {serving.ready} {answer}{words}")]


def reply(address: str, timeout_s: float) -> str:
    """Return an empty text for status 200, else a clause with the answer."""
    try:
        with _OPENER.open(address, timeout=timeout_s) as response:
            status = response.status
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"does not answer: {printable(str(getattr(error, 'reason', error)))}"
    return "" if status == 200 else f"answers with status {status}"
