"""The process of a repeat, and a record of it even if it dies."""

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import IO, Any, Protocol

from workloads.harness.probes.memory import available_bytes, oom_kills
from workloads.harness.probes.sockets import sockets_fault
from workloads.harness.records import out_of_memory
from workloads.harness.records.case import Case, smaller
from workloads.harness.records.errors import RecordError
from workloads.harness.records.printable import printable
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.alarm import Alarm
from workloads.harness.repeat.exclusive import INHERITED, not_for_children
from workloads.harness.repeat.replaced import not_measured, replaced_by

PARENT = "GRIDBENCH_PARENT"  # process id, set for our children
COMMAND = (sys.executable, "-m", "workloads")
SHARE_OF_MEMORY = 0.95
LONGEST_LINE = 4000  # characters of a line of standard error that are passed on at once
PR_SET_PDEATHSIG = 1  # prctl(2)
MOST_SAID = 200_000  # characters of a script's output that are passed on
PROFILERS_OWN = "ERROR: External init callback must run in same thread"  # if a script trains in a thread
LOOK_S = 0.1
LAST_S = 5.0  # in which killed processes are gone
Say = Callable[[str], None]


class Running(Protocol):
    """A repeat's process: `subprocess.Popen`, or a forked one."""

    pid: int
    returncode: Any
    stdout: Any
    stderr: Any

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal."""


class HasDescriptor(Protocol):
    """An object with a descriptor that an event, such as an alarm, makes readable."""

    def fileno(self) -> int: ...


Start = Callable[[Repeat, int, Mapping[str, str]], Running | None]


def run_repeat(
    repeat: Repeat,
    lock: int,
    say: Say,
    command: Sequence[str] = COMMAND,
    environ: Mapping[str, str] = os.environ,
    alarm: Alarm | None = None,
    start: Start | None = None,
) -> Record:
    """Measure a repeat in a separate process that holds `lock`.

    `start` starts the process if the command is our own, or declines. `alarm` ends it early, and rings if a
    script replaces its process.
    """
    kills, started = oom_kills(), time.perf_counter()
    process = start(repeat, lock, environ) if start and tuple(command) == COMMAND else None
    process = process or fresh(repeat, lock, command, environ)
    out: list[str] = []
    last_words: list[str] = []
    say = at_most(say) if repeat.script else say
    in_time = _watch(process, repeat.timeout_s, say, out, last_words, alarm)
    wall_s = time.perf_counter() - started
    if (record := _read(repeat, out)) is not None:
        return record
    if alarm and alarm.reason:
        return repeat.failed(Verdict.UNSUPPORTED, alarm.reason, wall_s)
    if not in_time:
        reason = f"no result within {repeat.timeout_s:g} s: the process was stopped"
        if repeat.script and (fault := sockets_fault()):
            reason += f"; {fault}"
        return repeat.failed(Verdict.TIMEOUT, reason, wall_s)
    return _death(repeat, process.returncode, last_words, oom_kills() != kills, wall_s)


def fresh(
    repeat: Repeat, lock: int, command: Sequence[str], environ: Mapping[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command, *arguments(repeat, command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=(lock,),
        env={**environ, INHERITED: str(lock), PARENT: str(os.getpid())},
    )


def arguments(repeat: Repeat, command: Sequence[str] = COMMAND) -> list[str]:
    """Return the arguments by which a command measures a repeat.

    Another command can be another version of the harness, such as a frozen reference, and gets the options
    that every version reads. A script gets JSON, too: its interpreter is that of its packages, with these
    workloads.
    """
    is_ours = tuple(command) == COMMAND or repeat.script is not None
    return ["repeat", repeat.to_json()] if is_ours else repeat.options()


def _watch(
    process: Running,
    timeout_s: float,
    say: Say,
    out: list[str],
    last_words: list[str],
    alarm: Alarm | None,
) -> bool:
    """Collect a process's output; return whether it ended in time. It is gone then."""
    threads = [
        Thread(target=_collect, args=(process, out, alarm), daemon=True),
        Thread(target=listen, args=(process.stderr, say, last_words), daemon=True),
    ]
    for thread in threads:
        thread.start()
    has_ended = False
    try:
        has_ended = _ended_within(process, timeout_s, alarm)
        return has_ended
    finally:
        stop(process, has_ended)  # before its streams end: a child that is left behind would hold them open
        for thread in threads:
            thread.join(timeout=LAST_S)


def waits_for_end(pid: int, timeout_s: float, alarm: HasDescriptor | None = None) -> bool:
    """Wait for any process; return whether it ends before time and `alarm`.

    Raises:
        OSError: the kernel has no handles of processes, or a sandbox forbids them.
        AttributeError: the system is not Linux.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        others = [alarm.fileno()] if alarm else []
        return handle in readable((handle, *others), timeout_s)
    finally:
        os.close(handle)


def readable(descriptors: Sequence[int], timeout_s: float) -> list[int]:
    poll = select.poll()  # `select` refuses descriptors above 1023
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(1000 * timeout_s)]


def _ended_within(process: Running, timeout_s: float, alarm: Alarm | None) -> bool:
    """Return whether the process ends in time, at once, unlike `Popen.wait`."""
    with suppress(OSError, AttributeError):
        return waits_for_end(process.pid, timeout_s, alarm)
    ends_s = time.monotonic() + timeout_s
    while process.poll() is None and time.monotonic() < ends_s:
        if alarm and alarm.wait(LOOK_S):
            return False
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0 if alarm else timeout_s)
    return process.poll() is not None


def _collect(process: Running, out: list[str], alarm: Alarm | None) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        out.append(line)
    if alarm and not out and isinstance(process, subprocess.Popen) and (command := replaced_by(process)):
        alarm.ring(not_measured(command))


def listen(stream: IO[str], say: Say, last_words: list[str]) -> None:
    for line in iter(lambda: stream.readline(LONGEST_LINE), ""):
        if line.startswith(PROFILERS_OWN):
            continue
        text = printable(line.rstrip())
        last_words[:] = [*last_words[-4:], text] if text else last_words
        say(text)


def at_most(say: Say, characters: int = MOST_SAID) -> Say:
    """Return `say` with a limit of `characters`."""
    left = characters

    def limited(text: str) -> None:
        nonlocal left
        if left > 0:
            say(text)
            left -= len(text) + 1
            if left <= 0:
                say(f"(the output after {characters} characters is left out)")

    return limited


def stop(process: Any, has_ended: bool) -> None:
    """Kill the process with all descendants, such as ranks' sessions, and reap it.

    If it `has_ended`, the kernel has given its children another parent.
    """
    family: list[Any] = []
    with suppress(Exception):  # psutil is missing, or the process has ended
        import psutil

        family = [] if has_ended else psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for child in family:
        with suppress(Exception):  # it is gone already: its parent's death was its own
            child.kill()
    for child in family:
        with suppress(Exception):
            child.wait(LAST_S)


def _read(repeat: Repeat, out: Sequence[str]) -> Record | None:
    lines = list(filter(str.strip, out))
    if not lines:
        return None
    try:
        record = Record.from_json(lines[-1])
    except RecordError:
        return None
    same = (record.hardware, record.case, record.repeat) == (repeat.hardware, repeat.case, repeat.repeat)
    return replace(record, session=repeat.session) if same else None  # options do not state it


def _death(repeat: Repeat, code: int, last_words: Sequence[str], oom: bool, wall_s: float) -> Record:
    who = "the script's process" if repeat.script else "the measuring process"
    return repeat.failed(*finding_of_end(repeat.case, who, code, last_words, oom), wall_s)


def finding_of_end(
    case: Case, who: str, code: int, last_words: Sequence[str], oom: bool
) -> tuple[Verdict, str]:
    """Return the verdict on a failed process, and a sentence; `oom`: the kernel killed one."""
    words = f" ({last_words[-1]})" if last_words else ""
    at = f" at {case.size_text}" if case.size else ""
    if code == -signal.SIGKILL and oom:
        return (
            Verdict.OUT_OF_MEMORY,
            f"the kernel ran out of memory{at} and killed the process{smaller(case)}",
        )
    if line := next(filter(out_of_memory.says_so, last_words), "") if code else "":
        return Verdict.OUT_OF_MEMORY, f"memory ran out{at}: {line.strip()}{smaller(case)}"
    if code < 0:
        return Verdict.CRASHED, f"{who} was killed by {signal_name(-code)}{words}"
    return Verdict.CRASHED, f"{who} ended with code {code}{words}"


def signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def be_a_good_child(device: str, processes: int = 1) -> None:
    """Have the measuring process die with its parent, and first when memory runs out.

    CUDA reserves far more address space than it uses, so only CPU processes get a limit. Several `processes`
    share the memory.
    """
    if INHERITED in os.environ:
        die_with_parent()
        not_for_children(int(os.environ[INHERITED]))
    be_killed_first()
    free, (own, _) = available_bytes(), resource.getrlimit(resource.RLIMIT_DATA)
    if device == "cpu" and free:
        limit = int(free * SHARE_OF_MEMORY / processes)
        limit = limit if own == resource.RLIM_INFINITY else min(limit, own)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def be_killed_first() -> None:
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def die_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.kill(int(os.environ.get(PARENT, os.getppid())), 0)
    except ProcessLookupError:
        sys.exit("the parent died before the measurement began")
