"""`python -m workloads script`: measure a user's own command, unchanged."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO

from workloads.command.measure import repeat_of, say
from workloads.harness.group.launch import PREFIX
from workloads.harness.group.ranks import Membership, membership_in
from workloads.harness.records.case import parse_size
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import make_folder, record_path, write_record
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
from workloads.harness.records.text import HEAD, line, script_facts, table
from workloads.harness.repeat.exclusive import INHERITED, whole_box
from workloads.harness.repeat.runs import COMMAND, PARENT, run_repeat, signal_name
from workloads.harness.script.command import check_script, own_case
from workloads.harness.script.measure import RANKS, RECORD


def script(options: argparse.Namespace) -> int:
    """Measure the command after `--`: alone, whole, or as one of torchrun's ranks."""
    member = membership_in()
    repeat = _repeat(options, member)
    is_first = member is None or member.rank == 0
    with ExitStack() as stack:
        if is_first:
            lock = stack.enter_context(whole_box(say))
        else:  # the first rank holds the box for all
            nothing = stack.enter_context(open(os.devnull))
            lock = nothing.fileno()
        if options.whole:
            return run_whole(repeat, lock, options.out if is_first else None)
        environ = dict(os.environ)
        if member:
            # All ranks of one torchrun have the same parent, and so the same folder.
            port = os.environ.get("MASTER_PORT", "")
            folder = Path(tempfile.gettempdir()) / f"{PREFIX}{os.getppid()}-{port}"
            folder.mkdir(mode=0o700, exist_ok=True)
            environ[RANKS] = str(folder)
            if is_first:
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
        record = run_repeat(repeat, lock, say, environ=environ)
    if is_first:
        print(record.to_json(), flush=True)
        say(table([HEAD, *map(line, [record])]))
        for name, text in script_facts(record.script) if record.script else ():
            say(f"{name}: {text}")
    return 0 if record.ok else 1


def _repeat(options: argparse.Namespace, member: Membership | None) -> Repeat:
    words = tuple(options.words[1:] if options.words[:1] == ["--"] else options.words)
    if not words:
        raise WorkloadsError("no script is given; write it after --, such as: script -- train.py --lr 1e-3")
    asked = Script(
        words,
        folder=str(Path(options.folder or os.getcwd()).absolute()),
        data=options.data,
        steps=options.steps,
        epochs=options.epochs,
        through=options.through,
        step_of=options.step_of,
        samples=options.samples,
        processes=options.processes,
        whole=options.whole,
    )
    if options.profile or options.cold_cache:
        raise WorkloadsError("--profile and --cold-cache are only for built-in workloads; leave them out")
    check_script(asked, member.world if member else None)
    if member:
        asked = replace(asked, processes=member.world)
    if asked.whole and not options.out:
        raise WorkloadsError(
            "--whole leaves standard output to the script; name a folder for the record by --out"
        )
    case = own_case(asked, parse_size(options.size), options.name)
    repeat = repeat_of(options, case)
    any_device = options.device is None
    return replace(repeat, script=asked, data=None, any_device=any_device)  # the command names the data


def run_whole(repeat: Repeat, lock: int, out: Path | None) -> int:
    """Run a repeat's script to its end, write its record into a folder, if one is given, and return the exit code.

    If a signal has ended the script, it ends this process too.

    Raises:
        WorkloadsError: the folder can't be made, or holds this record already.
    """
    if out is not None:
        make_folder(out)
    with tempfile.TemporaryFile("w+") as file:
        code = _run(repeat, lock, file)
        file.seek(0)
        try:
            record = Record.from_json(file.read())
        except RecordError:
            how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended its process with code {code}"
            record = repeat.failed(Verdict.CRASHED, f"the script {how}, so its measurement is lost")
    if out is not None and not write_record(out, record):
        raise WorkloadsError(f"{out / record_path(record)} exists already and was not changed")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _run(repeat: Repeat, lock: int, file: IO[str]) -> int:
    """Run the script in a process of its own, pass this process's signals on, and return the exit code."""
    record_fd = file.fileno()
    environ = {**os.environ, INHERITED: str(lock), PARENT: str(os.getpid()), RECORD: str(record_fd)}
    command = [*COMMAND, "repeat", repeat.to_json()]
    process = subprocess.Popen(command, pass_fds=(lock, record_fd), env=environ)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both processes
    signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
