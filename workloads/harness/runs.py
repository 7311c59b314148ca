"""A repeat is a fresh process: start it, wait for its record, and turn every way it can die into one."""

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from typing import IO

from workloads.harness.case import Case
from workloads.harness.errors import RecordError
from workloads.harness.exclusive import INHERITED, not_for_children
from workloads.harness.probes.memory import available_bytes, oom_kills
from workloads.harness.record import Record, Verdict

PARENT = "GRIDBENCH_PARENT"  # process id, set for a child of ours
COMMAND = (sys.executable, "-m", "workloads")
SHARE_OF_MEMORY = 0.95
LONGEST_LINE = 4000  # characters of a line of standard error that are passed on at once
PR_SET_PDEATHSIG = 1  # prctl(2)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Repeat:
    """One fresh process that measures a cell.

    Attributes:
        threads: CPU threads; None takes the physical cores that this process may use.
        quick: be less patient with a machine that won't settle.
        timeout_s: seconds after which the process is stopped.
    """

    run: str
    hardware: str
    case: Case
    repeat: int = 1
    order: int = 0
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    quick: bool = False
    timeout_s: float = 600.0

    @property
    def id(self) -> str:
        """The cell's id and the number of the repeat."""
        return f"{self.hardware}/{self.case.id}#{self.repeat}"

    def arguments(self) -> list[str]:
        """The arguments of `python -m workloads` that measure this repeat."""
        size = ",".join(f"{name}={value}" for name, value in self.case.size)
        pairs = {
            "size": size,
            "precision": self.case.precision,
            "run": self.run,
            "hardware": self.hardware,
            "repeat": self.repeat,
            "order": self.order,
            "seed": self.seed,
            "device": self.device,
            "threads": self.threads,
        }
        words = [f"--{name}={value}" for name, value in pairs.items() if value is not None]
        return ["run", self.case.workload, *words, *(["--quick"] if self.quick else [])]

    def failed(self, verdict: Verdict, reason: str, wall_s: float = 0.0) -> Record:
        """The record of a repeat that could not say itself how it ended."""
        return Record(
            run=self.run,
            hardware=self.hardware,
            case=self.case,
            repeat=self.repeat,
            verdict=verdict,
            reasons=(reason,),
            order=self.order,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            started_at=now_text(),
            wall_s=wall_s,
            unattributed_s=wall_s,
        )


def now_text() -> str:
    """The time now, UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_repeat(repeat: Repeat, lock: int, say: Say, command: Sequence[str] = COMMAND) -> Record:
    """Measure a repeat in a process of its own that holds `lock`; it is gone when this returns or raises."""
    kills, started = oom_kills(), time.perf_counter()
    process = subprocess.Popen(
        [*command, *repeat.arguments()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=(lock,),
        env={**os.environ, INHERITED: str(lock), PARENT: str(os.getpid())},
    )
    out: list[str] = []
    last_words: list[str] = []
    in_time = _watch(process, repeat.timeout_s, say, out, last_words)
    wall_s = time.perf_counter() - started
    if (record := _read(repeat, out)) is not None:
        return record
    if not in_time:
        reason = f"no result within {repeat.timeout_s:g} s: the process was stopped"
        return repeat.failed(Verdict.TIMEOUT, reason, wall_s)
    return _death(repeat, process.returncode, last_words, oom_kills() != kills, wall_s)


def _watch(
    process: subprocess.Popen[str], timeout_s: float, say: Say, out: list[str], last_words: list[str]
) -> bool:
    """Collect what a process says; whether it ended by itself. It is gone then, with all that it started."""
    threads = [
        Thread(target=_collect, args=(process.stdout, out), daemon=True),
        Thread(target=_listen, args=(process.stderr, say, last_words), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        return _ended_within(process, timeout_s)
    finally:
        _stop(process)  # before its streams end: a child that a workload left behind would hold them open
        for thread in threads:
            thread.join(timeout=5)


def _ended_within(process: subprocess.Popen[str], timeout_s: float) -> bool:
    """Whether the process ends in time; noticed at once, where `Popen.wait` would look every 50 ms."""
    if hasattr(os, "pidfd_open"):
        handle = os.pidfd_open(process.pid)
        try:
            return bool(select.select([handle], [], [], timeout_s)[0])
        finally:
            os.close(handle)
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _collect(stream: IO[str], out: list[str]) -> None:
    for line in stream:
        out.append(line)


def _listen(stream: IO[str], say: Say, last_words: list[str]) -> None:
    for line in iter(lambda: stream.readline(LONGEST_LINE), ""):
        text = line.rstrip()
        last_words[:] = [*last_words[-4:], text]
        say(text)


def _stop(process: subprocess.Popen[str]) -> None:
    """Kill the process with all that it started, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(repeat: Repeat, out: Sequence[str]) -> Record | None:
    """The record in a process's output, if there is a whole one of this repeat."""
    lines = list(filter(str.strip, out))
    if not lines:
        return None
    try:
        record = Record.from_json(lines[-1])
    except RecordError:
        return None
    same = (record.hardware, record.case, record.repeat) == (repeat.hardware, repeat.case, repeat.repeat)
    return record if same else None


def _death(repeat: Repeat, code: int, last_words: Sequence[str], oom: bool, wall_s: float) -> Record:
    """Say why a process ended without a record."""
    words = f" ({last_words[-1]})" if last_words else ""
    if code == -signal.SIGKILL and oom:
        return repeat.failed(
            Verdict.OUT_OF_MEMORY, "the kernel ran out of memory and killed the process", wall_s
        )
    if code < 0:
        known = -code in set(signal.Signals)
        name = signal.Signals(-code).name if known else f"signal {-code}"
        return repeat.failed(Verdict.CRASHED, f"the measuring process was killed by {name}{words}", wall_s)
    return repeat.failed(Verdict.CRASHED, f"the measuring process ended with code {code}{words}", wall_s)


def be_a_good_child(device: str) -> None:
    """In the measuring process: die with the parent, go first when memory ends, and stop short of that.

    A CUDA process reserves far more address space than it uses, so only CPU processes get a limit.
    """
    if INHERITED in os.environ:
        _die_with_parent()
        not_for_children(int(os.environ[INHERITED]))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    limit = available_bytes()
    if device == "cpu" and limit:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (int(limit * SHARE_OF_MEMORY),) * 2)


def _die_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.kill(int(os.environ.get(PARENT, os.getppid())), 0)
    except ProcessLookupError:
        sys.exit("the parent died before the measurement began")
