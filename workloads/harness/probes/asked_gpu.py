"""Ask a GPU through NVML in another process: a driver can hang or kill it.

The process lives as long as the measurement and answers by lines of JSON on a socket. It is not its child: a
script that waits for all of its children, or kills them, does not meet it.

    measuring process ── starts ──> a process that forks and ends
                                      keeper   ends with the measuring process, and reports how the asker ends
                                        asker  calls NVML
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Any

from workloads.harness.probes.device_here import HERE
from workloads.harness.probes.gpu import Gpu, open_gpu
from workloads.harness.probes.gpu_place import visible_uuid
from workloads.harness.probes.orphans import adopting

OPEN_S = (
    25.0  # a sound driver starts within one; without persistence it first starts every card of the machine
)
ANSWER_S = 10.0
LAST_S = 1.0
LOOK_S = 0.2  # between two looks at other processes, if the kernel has no handles for them
_PROGRAM = f"import os; os.fork() and os._exit(0); from {__name__} import serve; serve()"
_ENDED = b"ended with code "
# Signals that faulty code gets; the others are sent by a person, or by the kernel for want of memory.
_FAULTS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
_LONGEST_READ = 1 << 16


class AskedGpu(Gpu):
    """A GPU behind another process; answers after a late one are missing.

    Attributes:
        is_lost: the driver hung or killed the process that asked it.
    """

    def __init__(self, uuid: str | None = None, after: Gpu | None = None) -> None:
        """Start the other process; without `uuid` it asks CUDA's first GPU.

        A living process of `after`, the GPU that was asked before, is reused, because a script that handles
        SIGCHLD would notice another start. The first question closes `after`.
        """
        super().__init__({})
        self.is_lost = False
        self._why = ""
        self._lock = threading.Lock()
        self._rest = b""
        self._first_cpu_s = 0.0
        self._uuid, self._asked = "", uuid or ""
        self._is_open = False
        self._pid = os.getpid()
        self._socket: socket.socket | None = None  # of questions and answers
        self._after = after if isinstance(after, AskedGpu) else None
        if not self._after:
            self._start()

    def _start(self) -> None:
        try:
            self._socket = _started(self._asked)
        except (OSError, subprocess.SubprocessError) as error:
            self._why = f"the process that asks NVML can't be started: {error}"

    @property
    def uuid(self) -> str:
        with self._lock:
            self._open()
        return self._uuid

    def close(self) -> None:
        """End the other process, without waiting for it."""
        with self._lock:
            self._give_up("it was closed")

    def _given_away(self) -> socket.socket | None:
        with self._lock:
            self._open()
            ours, self._socket = self._socket, None
            self._give_up("another GPU is asked in its place")
            return ours

    def _ask(self, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
        names = list(names)
        with self._lock:
            self._open()
            if not self._why:
                answer = self._exchange(json.dumps(names).encode() + b"\n", ANSWER_S)
                if answer is not None:
                    values, missing, cpu_s = answer
                    self.cpu_s = cpu_s - self._first_cpu_s
                    return values, missing
            return {}, dict.fromkeys(names, self._why)

    def _open(self) -> None:
        if self._is_open or self._why:
            return
        self._is_open, question = True, b""
        if self._after:
            self._socket = self._after._given_away()
            if self._socket:
                question = json.dumps(self._asked).encode() + b"\n"
            else:
                self._start()
        if self._socket and (first := self._exchange(question, OPEN_S)) is not None:
            self._uuid, why, self._first_cpu_s = first
            if why:
                self._give_up(why)

    def _exchange(self, question: bytes, limit_s: float) -> Any:
        assert self._socket is not None
        try:
            if question:  # a script can have set SIGPIPE to end the process
                self._socket.sendall(question, socket.MSG_NOSIGNAL)
            answer = json.loads(self._line(self._socket, limit_s))
            if isinstance(answer, list):
                return answer
        except TimeoutError:
            self.is_lost = True
            self._give_up(f"the NVIDIA driver did not answer NVML within {limit_s:g} s: it hangs")
            return None
        except (OSError, ValueError):  # the other end is closed, or an answer broke off
            pass
        code = self._exit_code(self._socket)
        self.is_lost = code is not None and -code in _FAULTS
        how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
        self._give_up(f"the process that asked NVML was ended {how}")
        return None

    def _exit_code(self, answers: socket.socket) -> int | None:
        with suppress(OSError, ValueError):
            while not (line := self._line(answers, LAST_S)).startswith(_ENDED):
                pass
            return int(line.removeprefix(_ENDED))
        return None

    def _line(self, answers: socket.socket, limit_s: float) -> bytes:
        ends_s, poll = time.perf_counter() + limit_s, select.poll()  # `select` refuses handles above 1023
        poll.register(answers, select.POLLIN)
        while b"\n" not in self._rest:
            left_s = ends_s - time.perf_counter()
            if left_s <= 0 or not poll.poll(1000 * left_s):
                raise TimeoutError
            if not (part := answers.recv(_LONGEST_READ)):
                raise BrokenPipeError
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _give_up(self, why: str) -> None:
        self.reason = self._why = self._why or why
        ours, self._socket = self._socket, None
        if ours is None:
            return
        if os.getpid() == self._pid:  # the copy of this end in a forked process would keep the other alive
            with suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)
        ours.close()


def _started(uuid: str) -> socket.socket:
    ours, its = socket.socketpair()
    with its, ExitStack() as until_started:
        until_started.callback(ours.close)
        with adopting(False):  # in case this process is set to take orphans
            child = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(os.getpid()), uuid],
                stdin=its.fileno(),
                stdout=its.fileno(),
                stderr=subprocess.DEVNULL,
                cwd=HERE,
                start_new_session=True,
            )
            child.wait(OPEN_S)
        until_started.pop_all()
    return ours


def serve() -> None:
    """Answer questions about the command line's GPU in a child, killed when the measuring process ends."""
    measuring, uuid = int(sys.argv[1]), sys.argv[2]
    asker = os.fork()
    if not asker:
        _answer(measuring, uuid)
        return
    _wait(measuring, asker)
    with suppress(ProcessLookupError):
        os.kill(asker, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(asker, 0)[1])
    with suppress(OSError):
        os.write(
            sys.stdout.fileno(), b"\n%s%d\n" % (_ENDED, code)
        )  # after an answer that can have broken off


def _wait(measuring: int, asker: int) -> None:
    poll, limit_ms = select.poll(), None
    poll.register(sys.stdout, 0)  # which reports that the other end is gone
    for pid in (measuring, asker):
        try:
            poll.register(os.pidfd_open(pid), select.POLLIN)
        except ProcessLookupError:
            return
        except (OSError, AttributeError):
            limit_ms = 1000 * LOOK_S
    while not poll.poll(limit_ms):
        has_ended = os.waitid(os.P_PID, asker, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if has_ended or not os.path.exists(f"/proc/{measuring}"):
            return


def _answer(measuring: int, uuid: str) -> None:
    gpu = _opened(measuring, uuid)
    for line in sys.stdin.buffer:
        question = json.loads(line)
        if isinstance(question, str):
            gpu = _opened(measuring, question)
        else:
            _say([*gpu._ask(question), time.process_time()])


def _opened(measuring: int, uuid: str) -> Gpu:
    gpu = open_gpu(uuid or visible_uuid() or _first_visible())
    gpu.own_pid = measuring
    _say([getattr(gpu, "uuid", ""), gpu.reason if not gpu.questions else "", time.process_time()])
    return gpu


def _first_visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()


def _say(answer: list[Any]) -> None:
    sys.stdout.write(json.dumps(answer, default=repr) + "\n")
    sys.stdout.flush()
