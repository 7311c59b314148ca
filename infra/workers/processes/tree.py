"""The root of a job's process tree, on a machine where users cannot start containers.

`bundle` packs it as one file, which needs Linux and Python 3.10. The job's watcher (on a box behind SSH) or
batch script (on a cluster) runs

    python3 tree.pyz hold [--limit-s S] [--env-file FILE] [--code DIR] [--bin DIR] FOLDER COMMAND…

in the foreground. It runs the command in DIR with the variables of FILE; PATH begins with the folder of
`--bin`, by default that of this Python. None of its processes and temporary files stays. Its exit code is the
command's; 128 + N if signal N ended that. SIGTERM gives the command `GRACE_S` to end by itself; a second
SIGTERM kills it. FOLDER, whose name is the job's, contains

    root   the process id; locked (flock) while the root lives
    log    the command's output, as it comes; a full disk costs lines of it, never the job
    late   present if the limit has ended the job
    exit   `CODE OOM` at the end, such as `3 false` or `137 true`

All processes of the tree have the job's name in their variable `processes.MARK`, and descend from the root,
which adopts orphans. The caller holds the box's lock for it, such as by `flock -n -o LOCK_FILE`.
"""

import argparse
import ctypes
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..brand import BRAND
from .processes import MARK, oom_kills, reap, sweep, variables, without_proxy

GRACE_S = 25.0  # less than batch systems leave between SIGTERM and SIGKILL
LOG_LIMIT_BYTES = 1 << 30
CHUNK_BYTES, CHUNKS = 1 << 16, 64
BEAT_S = 0.5
BLANK = b"none none            \n"  # reserves the space of `exit` from the beginning
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
CANNOT_START, KILLED = 126, 137
LOCK_S = 5.0  # other readers hold the root's lock for a moment


class Log:
    """The job's log: output that doesn't fit on the disk is dropped and counted, and the job continues."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._lost_bytes = file, 0
        self._room_bytes = LOG_LIMIT_BYTES - file.tell()

    def write(self, content: bytes) -> None:
        taken, written = content[: max(self._room_bytes, 0)], 0
        with suppress(OSError):
            while written < len(taken):
                written += os.write(self._file.fileno(), taken[written:])
        self._room_bytes -= written
        self._lost_bytes += len(content) - written

    def close(self) -> None:
        if self._lost_bytes:
            self.write(b"\n%d bytes of the log did not fit on the disk.\n" % self._lost_bytes)


class Root:
    """One tree, from its command's start to the end of all descendants."""

    def __init__(self, folder: Path, log: Log, limit_s: float | None) -> None:
        self._folder, self._log = folder, log
        self._ends_at = time.monotonic() + limit_s if limit_s else None
        self._kill_at: float | None = None
        self._asked = 0
        self._ended: dict[int, int] = {}  # exit codes of children, also of adopted ones

    def ask(self, *_: object) -> None:
        """Ask the command to end; the second time, kill it."""
        self._asked += 1

    def run(self, command: list[str], environ: dict[str, str], code: str | None) -> int:
        """Run the command; return its exit code once all descendants are gone.

        `OSError` if it can't be started.
        """
        out, into = os.pipe()
        try:
            main = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=into,
                stderr=into,
                env=environ,
                cwd=code,
                start_new_session=True,
            )
        finally:
            os.close(into)
        main.returncode = 0  # it is reaped with all others
        os.set_blocking(out, False)
        while main.pid not in self._bury():
            self._look_at_the_clock(main.pid)
            select.select([out], [], [], BEAT_S)
            if not self._copy(out):  # the command has closed its output
                time.sleep(BEAT_S / 10)
        self._sweep()
        self._copy(out)
        return self._ended[main.pid]

    def _bury(self) -> dict[int, int]:
        self._ended |= reap()
        return self._ended

    def _sweep(self) -> None:
        sweep(self._folder.name, os.getpid(), self._bury)

    def _copy(self, out: int) -> bool:
        with suppress(BlockingIOError):
            for _ in range(CHUNKS):
                if not (chunk := os.read(out, CHUNK_BYTES)):
                    return False
                self._log.write(chunk)
        return True

    def _look_at_the_clock(self, main: int) -> None:
        now = time.monotonic()
        if self._ends_at and now > self._ends_at and not self._asked:
            with suppress(OSError):
                (self._folder / "late").touch()
            self.ask()
        if self._asked and self._kill_at is None:
            self._kill_at = now + GRACE_S
            with suppress(ProcessLookupError):
                os.killpg(main, signal.SIGTERM)  # to children as well, as the init of our images does
        if self._kill_at and (self._asked > 1 or now > self._kill_at):
            self._sweep()


def hold(asked: argparse.Namespace) -> int:
    folder: Path = asked.folder
    if os.environ.get(MARK) != folder.name:  # the root has the mark, too
        words = [sys.executable, *sys.argv]
        os.execve(sys.executable, words, os.environ | {MARK: folder.name})
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "exit").write_bytes(BLANK)
    with (folder / "root").open("w") as lock, (folder / "log").open("ab", buffering=0) as printed:
        _lock(lock)
        root = Root(folder, log := Log(printed), asked.limit_s)
        signal.signal(signal.SIGTERM, root.ask)
        signal.signal(signal.SIGINT, root.ask)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        before = oom_kills()
        try:
            with _scratch(folder) as temporary:
                code = root.run(asked.command, _environ(asked, temporary), asked.code)
        except OSError as error:
            log.write(f"The job can't be started: {error}.\n".encode())
            code = CANNOT_START
        own, machine = (now - then for now, then in zip(oom_kills(), before, strict=True))
        log.close()
        for_memory = own > 0 or (machine > 0 and code == KILLED)
        with (folder / "exit").open("r+b") as end:
            end.write(f"{code} {str(for_memory).lower()}".ljust(len(BLANK) - 1).encode())
    return code


def _lock(file: IO[str]) -> None:
    until = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Yield a folder for temporary files; its path is short, because sockets are in it."""
    made = Path(tempfile.mkdtemp(prefix=f"{BRAND.name}-"))
    (folder / "tmp").unlink(missing_ok=True)
    (folder / "tmp").symlink_to(made)
    try:
        yield made
    finally:
        forget_scratch(folder)


def forget_scratch(folder: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(os.readlink(folder / "tmp"), ignore_errors=True)
        (folder / "tmp").unlink()


def _environ(asked: argparse.Namespace, temporary: Path) -> dict[str, str]:
    """Return this process's variables, a container's usual ones, and the job's."""
    left_out = ("PYTHON", "PREFECT", "VIRTUAL_ENV")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environ |= {MARK: asked.folder.name, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    environ |= {
        "PREFECT_HOME": str(temporary / "prefect"),
        f"{BRAND.env_prefix}BOX_LOCK": str(temporary / "box.lock"),
    }
    if asked.code:
        environ["PYTHONPATH"] = asked.code
    programs = asked.bin or os.path.dirname(sys.executable)
    # The real path: an environment's Python finds itself by it.
    environ["PATH"] = os.pathsep.join([os.path.realpath(programs), environ.get("PATH", os.defpath)])
    environ |= variables(asked.env_file.read_bytes().split(b"\n")) if asked.env_file else {}
    return environ | without_proxy(environ)  # the job's API is a port of this machine
