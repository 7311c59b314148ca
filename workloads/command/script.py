"""`python -m workloads script`: measure a user's own command, unchanged."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from workloads.command.measure import repeat_of
from workloads.command.output import Records, say
from workloads.command.whole import run_whole
from workloads.harness.group.launch import PREFIX
from workloads.harness.group.ranks import Membership, membership_in
from workloads.harness.records.case import parse_size
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
from workloads.harness.records.text import HEAD, line, script_facts, table
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.script_runs import run_script
from workloads.harness.script.command import check_script, own_case
from workloads.harness.script.measure import RANKS


def script(options: argparse.Namespace) -> int:
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
        record = run_script(repeat, lock, say, environ=environ)
    output = Records()
    if is_first:
        output.put(record)
        say(table([HEAD, *map(line, [record])]))
        for name, text in script_facts(record.script) if record.script else ():
            say(f"{name}: {text}")
    return 0 if record.ok and not output.kept else 1


def _repeat(options: argparse.Namespace, member: Membership | None) -> Repeat:
    words = tuple(options.words[1:] if options.words[:1] == ["--"] else options.words)
    if not words:
        raise WorkloadsError("no script is given; write it after --, such as: script -- train.py --lr 1e-3")
    asked = Script(
        words,
        folder=os.path.abspath(options.folder or os.getcwd()),
        data=options.data,
        steps=options.steps,
        epochs=options.epochs,
        through=options.through,
        step_of=options.step_of,
        samples=options.samples,
        processes=options.processes,
        whole=options.whole,
        keep=options.keep and str(options.keep.absolute()),
        in_place=member is not None,  # otherwise each rank would have its own copy
    )
    if options.profile or options.cold_cache:
        raise WorkloadsError("--profile and --cold-cache are only for built-in workloads; leave them out")
    check_script(asked, member.world if member else None)
    if member:
        asked = replace(asked, processes=member.world)
    if asked.keep and (asked.whole or asked.in_place):
        raise WorkloadsError("--keep is given, but the script runs in its folder itself; leave --keep out")
    if asked.whole and not options.out:
        raise WorkloadsError(
            "--whole leaves standard output to the script; name a folder for the record by --out"
        )
    case = own_case(asked, parse_size(options.size), options.name)
    repeat = repeat_of(options, case)
    any_device = options.device is None
    return replace(repeat, script=asked, data=None, any_device=any_device)  # the command names the data
