"""`python -m workloads script --whole`: run a script to its end, as its user would."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import IO

from workloads.command.output import Records
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import make_folder, record_path
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import ScriptFiles
from workloads.harness.repeat.exclusive import INHERITED
from workloads.harness.repeat.replaced import not_measured, replaced_by
from workloads.harness.repeat.runs import COMMAND, PARENT, signal_name
from workloads.harness.repeat.script_runs import with_files
from workloads.harness.script.measure import RECORD

NOTED_S = 0.5
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # which sends them to the script as well
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, *FROM_TERMINAL)


def run_whole(repeat: Repeat, lock: int, out: Path | None) -> int:
    """Run a script to its end, write its record into any folder given, and return the exit code.

    A signal that ended the script ends this process too.
    """
    if out is not None:
        make_folder(out)
        if (out / record_path(repeat)).exists():
            raise WorkloadsError(
                f"{out / record_path(repeat)} exists already; name another folder with --out"
            )
    with tempfile.TemporaryFile("w+") as file:
        code, command = _run(repeat, lock, file)
        file.seek(0)
        try:
            record = Record.from_json(file.read())
        except RecordError:
            record = _without_record(repeat, code, command)
    record = with_files(record, ScriptFiles("folder"))
    if out is not None:
        Records(out).put(record)
    if code < 0:
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _without_record(repeat: Repeat, code: int, command: str) -> Record:
    if command:
        return repeat.failed(Verdict.UNSUPPORTED, not_measured(command))
    how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended its process with code {code}"
    return repeat.failed(Verdict.CRASHED, f"the script {how}, so its measurement is lost")


def _run(repeat: Repeat, lock: int, file: IO[str]) -> tuple[int, str]:
    record_fd, commands = file.fileno(), list[str]()
    reading, writing = os.pipe()  # its other end closes in a process that replaces its program
    environ = {**os.environ, INHERITED: str(lock), PARENT: str(os.getpid()), RECORD: f"{record_fd},{writing}"}
    command = [*COMMAND, "repeat", repeat.to_json()]
    with _passed_on() as take:
        process = subprocess.Popen(command, pass_fds=(lock, record_fd, writing), env=environ, text=True)
        take(process)
        os.close(writing)
        thread = Thread(target=_look_for_another, args=(process, reading, commands), daemon=True)
        thread.start()
        code = process.wait()
    thread.join(NOTED_S)  # a process that the script has left running can hold the pipe open
    return code, next(iter(commands), "")


def _look_for_another(process: subprocess.Popen[str], reading: int, commands: list[str]) -> None:
    """Note the command that replaces the process's program, when its pipe ends."""
    with suppress(OSError), os.fdopen(reading, "rb") as pipe:
        pipe.read()
        if command := replaced_by(process):
            commands.append(command)


@contextmanager
def _passed_on() -> Iterator[Callable[[subprocess.Popen[str]], None]]:
    taken: list[subprocess.Popen[str]] = []
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number in FROM_TERMINAL and _is_in_foreground():
            return
        if not taken:
            early.append(number)
        for process in taken:
            process.send_signal(number)

    def take(process: subprocess.Popen[str]) -> None:
        taken.append(process)
        for number in early:
            process.send_signal(number)

    before = {number: signal.getsignal(number) for number in PASSED_ON}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # the script ignores it too, then
            signal.signal(number, pass_on)
    try:
        yield take
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
