"""A GPU that a child process asks through NVML: a driver can hang, or kill the process that asks it.

The child stays for as long as the measurement lasts, and its answers are lines of JSON. A reading costs the measuring
process a line written and a line read; NVML's own work is done in the child.
"""

import ctypes
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

OPEN_S = (
    25.0  # a sound driver is up within one; without persistence it first starts every card of the machine
)
ANSWER_S = 10.0
_PROGRAM = f"from {__name__} import serve; serve()"
_PR_SET_PDEATHSIG = 1  # prctl(2)
# Signals that faulty code gets; the others are sent by a person, or by the kernel for want of memory.
_FAULTS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
_LONGEST_READ = 1 << 16


class AskedGpu(Gpu):
    """A GPU behind a child process. An answer that does not come in time is missing, and all later ones with it.

    Attributes:
        is_lost: whether the driver hung or killed the child.
    """

    def __init__(self, uuid: str | None = None) -> None:
        """Start the child; without `uuid` it asks CUDA's first GPU."""
        super().__init__({})
        self.is_lost = False
        self._why = ""
        self._lock = threading.Lock()
        self._rest = b""
        self._first_cpu_s = 0.0
        self._uuid = ""
        self._is_open = False
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(os.getpid()), uuid or ""],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=HERE,
            )
        except OSError as error:
            self._why = f"the process that asks NVML can't be started: {error}"

    @property
    def uuid(self) -> str:
        """The GPU's UUID with its prefix; empty if none was found."""
        with self._lock:
            self._open()
        return self._uuid

    def close(self) -> None:
        """End the child, without waiting for one that hangs."""
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
        """Wait for the child's first line, once: the UUID, or why there is no GPU."""
        if self._is_open or self._why:
            return
        self._is_open = True
        if (first := self._exchange(b"", OPEN_S)) is not None:
            self._uuid, why, self._first_cpu_s = first
            if why:
                self._give_up(why)

    def _exchange(self, question: bytes, limit_s: float) -> Any:
        """Return the child's next line; None if there is none, and `_why` says why."""
        assert self._child is not None and self._child.stdin and self._child.stdout
        try:
            if question:
                self._child.stdin.write(question)
            return json.loads(self._line(self._child.stdout, limit_s))
        except TimeoutError:
            self.is_lost = True
            self._give_up(f"the NVIDIA driver did not answer NVML within {limit_s:g} s: it hangs")
        except (OSError, ValueError):  # a pipe that is broken, or an answer that broke off
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(1.0)
            code = self._child.returncode
            self.is_lost = code is not None and -code in _FAULTS
            how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
            self._give_up(f"the process that asked NVML was ended {how}")
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
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(OSError):
            child.kill()
        for stream in (child.stdin, child.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(0.1)  # one that hangs in the driver can't be ended


def serve() -> None:
    """Answer questions about the GPU of the command line, a line each, until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is for the process that asks
    asker, uuid = int(sys.argv[1]), sys.argv[2]
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != asker:
        return
    gpu = open_gpu(uuid or visible_uuid() or _first_visible())
    gpu.own_pid = asker
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
