"""A script that runs to its end: its input, output, files and exit code are its own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import make_folder, record_path, write_record
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.exclusive import INHERITED
from workloads.harness.repeat.runs import COMMAND, PARENT, signal_name
from workloads.harness.script.measure import RECORD


def run_whole(repeat: Repeat, lock: int, out: Path | None) -> int:
    """Run a repeat's script to its end and write its record into a folder, if one is given.

    Returns the script's exit code.

    A script that a signal has ended takes this process along in the same way.

    Raises:
        WorkloadsError: the folder can't be made, or holds this record already.
    """
    if out is not None:
        make_folder(out)
    with tempfile.TemporaryFile("w+") as file:
        code = _run(repeat, lock, file)
        record = _read(file) or _died(repeat, code)
    if out is not None and not write_record(out, record):
        raise WorkloadsError(f"{out / record_path(record)} exists already and was not changed")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _run(repeat: Repeat, lock: int, file: IO[str]) -> int:
    """Run it in a process of its own, which gets what this one is sent; return its exit code."""
    record_fd = file.fileno()
    environ = {**os.environ, INHERITED: str(lock), PARENT: str(os.getpid()), RECORD: str(record_fd)}
    command = [*COMMAND, "repeat", repeat.to_json()]
    process = subprocess.Popen(command, pass_fds=(lock, record_fd), env=environ)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the terminal sends it to both: it is the script's to answer
    signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _read(file: IO[str]) -> Record | None:
    file.seek(0)
    try:
        return Record.from_json(file.read())
    except RecordError:
        return None


def _died(repeat: Repeat, code: int) -> Record:
    how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended its process with code {code}"
    return repeat.failed(Verdict.CRASHED, f"the script {how}, so its measurement is lost")
