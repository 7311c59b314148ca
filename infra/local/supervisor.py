"""The parent process of one service: it ends with its owner, and leaves no descendants behind.

    python -P supervisor.py STATE PARENT_PIPE COMMAND…

PARENT_PIPE is the read end of a pipe that closes when the owner dies, also by `kill -9`; a parent-death
signal alone would depend on the thread that started us. The command gets that signal from us, who have one
thread.

All descendants of the command inherit GRIDBENCH_STACK=STATE, which finds them: flow runs leave the process
group and can lose their parent.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container
from contextlib import suppress
from types import FrameType

import psutil

MARK = "GRIDBENCH_STACK"
ROLE = "GRIDBENCH_STACK_ROLE"
SERVER = "server"
GRACE_S = 4.0
PR_SET_PDEATHSIG = 1


def marked(
    state: str, spare: Container[int] = (), servers: bool = False, role: str | None = None
) -> list[psutil.Process]:
    """Return the stack's processes, except ourselves, our ancestors and `spare`.

    With `role`, those of one service and its descendants; otherwise all, the server's only with `servers`.
    """
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in ours and process.pid not in spare and _belongs(process, state, servers, role)
    ]


def _belongs(process: psutil.Process, state: str, servers: bool, role: str | None) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False  # another user's, or gone
    if environment.get(MARK) != state:
        return False
    theirs = environment.get(ROLE)
    return theirs == role if role else servers or theirs != SERVER


def sweep(
    state: str,
    spare: Container[int] = (),
    servers: bool = False,
    role: str | None = None,
    grace_s: float = GRACE_S,
) -> int:
    """Stop the marked processes: SIGTERM, SIGKILL after `grace_s`. Return their number."""
    met: set[int] = set()
    deadline = time.monotonic() + grace_s
    while left := marked(state, spare, servers, role):
        late = time.monotonic() > deadline
        if time.monotonic() > deadline + grace_s:
            break  # stuck in the kernel: no signal helps
        for process in left:
            if late or process.pid not in met:
                with suppress(psutil.Error):  # it has just ended
                    process.send_signal(signal.SIGKILL if late else signal.SIGTERM)
        met |= {process.pid for process in left}
        time.sleep(0.1)
    return len(met)


def _is_apart(process: psutil.Process) -> bool:
    """Return True for a flow run and its children: a worker's own processes are in our process group."""
    with suppress(OSError):
        return os.getpgid(process.pid) != os.getpgid(0)
    return False  # it has just ended


def _watch_signals() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def note(number: int, frame: FrameType | None) -> None:
        """Do nothing: the wake-up pipe carries the number."""

    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, note)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _die_with_parent() -> Callable[[], None]:
    supervisor, libc = os.getpid(), ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # a shell's `&` leaves SIGINT ignored, and Prefect needs it
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != supervisor:
                os._exit(1)

    return prepare


def _until_over(child: "subprocess.Popen[bytes]", parent_pipe: int, wake: int) -> None:
    while child.poll() is None:
        ready, _, _ = select.select([parent_pipe, wake], [], [])
        if parent_pipe in ready and not os.read(parent_pipe, 64):
            return
        if wake in ready and set(os.read(wake, 64)) - {signal.SIGCHLD}:
            return


def _stop(child: "subprocess.Popen[bytes]", others: bool) -> None:
    """End the child.

    A worker that stops kills its runs before they can report their end. So if there are `others`, it is
    killed first and at once; the sweep sends them SIGTERM.
    """
    if child.poll() is not None:
        return
    child.kill() if others else child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def main(state: str, parent_pipe: int, command: list[str]) -> int:
    wake = _watch_signals()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent())
    _until_over(child, parent_pipe, wake)
    role = os.environ[ROLE]
    runs = [] if role == SERVER else list(filter(_is_apart, marked(state, {child.pid}, role=role)))
    _stop(child, others=bool(runs))
    if role != SERVER:
        sweep(state, role=role)  # another worker of the stack continues
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
