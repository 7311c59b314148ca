"""A GPU that another process asks through NVML: a driver can hang, or kill the process that asks it.

That process stays for as long as the measurement lasts, and its answers are lines of JSON. A reading costs the
measuring process a line written and a line read. NVML's own work is done in the other process. It is not a child of the
measuring process: a user's script that waits for all of its children, or kills them, does not meet it.

    measuring process ── starts ──> a process that forks and ends
                                      keeper   ends with the measuring process, and reports how the asker ends
                                        asker  calls NVML
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import IO, Any

from workloads.harness.probes.device_here import HERE
from workloads.harness.probes.gpu import Gpu, open_gpu
from workloads.harness.probes.gpu_place import visible_uuid
from workloads.harness.probes.orphans import adopting

OPEN_S = (
    25.0  # a sound driver is up within one; without persistence it first starts every card of the machine
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
    """A GPU behind another process. An answer that does not come in time is missing, and all later ones with it.

    Attributes:
        is_lost: whether the driver hung or killed the process that asked it.
    """

    def __init__(self, uuid: str | None = None) -> None:
        """Start the other process; without `uuid` it asks CUDA's first GPU."""
        super().__init__({})
        self.is_lost = False
        self._why = ""
        self._lock = threading.Lock()
        self._rest = b""
        self._first_cpu_s = 0.0
        self._uuid = ""
        self._is_open = False
        self._pipes: tuple[IO[bytes], IO[bytes]] | None = None  # for questions, and for answers
        try:
            self._pipes = _started(uuid or "")
        except (OSError, subprocess.SubprocessError) as error:
            self._why = f"the process that asks NVML can't be started: {error}"

    @property
    def uuid(self) -> str:
        """The GPU's UUID with its prefix; empty if none was found."""
        with self._lock:
            self._open()
        return self._uuid

    def close(self) -> None:
        """End the other process, without waiting for it."""
        with self._lock:
            self._give_up("it was closed")

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
        """Wait for the first line, once: the UUID, or why there is no GPU."""
        if self._is_open or self._why:
            return
        self._is_open = True
        if (first := self._exchange(b"", OPEN_S)) is not None:
            self._uuid, why, self._first_cpu_s = first
            if why:
                self._give_up(why)

    def _exchange(self, question: bytes, limit_s: float) -> Any:
        """Return the next line of answers; None if there is none, and `_why` says why."""
        assert self._pipes is not None
        questions, answers = self._pipes
        try:
            if question:
                questions.write(question)
            answer = json.loads(self._line(answers, limit_s))
            if isinstance(answer, list):
                return answer
        except TimeoutError:
            self.is_lost = True
            self._give_up(f"the NVIDIA driver did not answer NVML within {limit_s:g} s: it hangs")
            return None
        except (OSError, ValueError):  # a pipe that is broken, or an answer that broke off
            pass
        code = self._exit_code(answers)
        self.is_lost = code is not None and -code in _FAULTS
        how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
        self._give_up(f"the process that asked NVML was ended {how}")
        return None

    def _exit_code(self, answers: IO[bytes]) -> int | None:
        """Return how the asker ended, by the keeper's last line; None if there is none."""
        with suppress(OSError, ValueError):
            while not (line := self._line(answers, LAST_S)).startswith(_ENDED):
                pass
            return int(line.removeprefix(_ENDED))
        return None

    def _line(self, stream: IO[bytes], limit_s: float) -> bytes:
        ends_s, poll = time.perf_counter() + limit_s, select.poll()  # `select` refuses handles above 1023
        poll.register(stream, select.POLLIN)
        while b"\n" not in self._rest:
            left_s = ends_s - time.perf_counter()
            if left_s <= 0 or not poll.poll(1000 * left_s):
                raise TimeoutError
            if not (part := os.read(stream.fileno(), _LONGEST_READ)):
                raise BrokenPipeError
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _give_up(self, why: str) -> None:
        self.reason = self._why = self._why or why
        pipes, self._pipes = self._pipes, None
        for pipe in pipes or ():
            with suppress(OSError):
                pipe.close()


def _started(uuid: str) -> tuple[IO[bytes], IO[bytes]]:
    """Start the process that asks NVML, in a new session; return pipes for questions and for answers.

    Raises:
        OSError, subprocess.SubprocessError: it can't be started.
    """
    with adopting(False):  # in case this process is set to take orphans
        child = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(os.getpid()), uuid],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=HERE,
            start_new_session=True,
        )
        child.wait(OPEN_S)
    assert child.stdin and child.stdout
    return child.stdin, child.stdout


def serve() -> None:
    """Answer questions about the GPU of the command line, in a child process whose end is the last answer.

    The child is killed when the measuring process ends, or has closed the pipe of answers.
    """
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
    """Wait until the asker has ended, the measuring process has, or its end of the pipe is closed."""
    poll, limit_ms = select.poll(), None
    poll.register(sys.stdout, 0)  # which reports the error of a closed pipe
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
    """Answer questions, a line each, until standard input ends."""
    gpu = open_gpu(uuid or visible_uuid() or _first_visible())
    gpu.own_pid = measuring
    _say([getattr(gpu, "uuid", ""), gpu.reason if not gpu.questions else "", time.process_time()])
    for line in sys.stdin.buffer:
        values, missing = gpu._ask(json.loads(line))
        _say([values, missing, time.process_time()])


def _first_visible() -> str:
    """Return CUDA's name of its first GPU, for the sentence that says why NVML does not know it."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()


def _say(answer: list[Any]) -> None:
    sys.stdout.write(json.dumps(answer, default=repr) + "\n")
    sys.stdout.flush()
