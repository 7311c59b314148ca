"""`python -m workloads script`: measure a user's own command, unchanged."""

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path

from workloads.harness.records.case import parse_size
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
from workloads.harness.records.text import HEAD, line, table
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat
from workloads.harness.script.words import check_script, own_case


def say(text: str) -> None:
    """Print to standard error: progress, and what the script says."""
    print(text, file=sys.stderr, flush=True)


def script(options: argparse.Namespace) -> int:
    """Measure the command that follows `--`."""
    repeat = _repeat(options)
    with whole_box(say) as lock:
        record = run_repeat(repeat, lock, say)
    print(record.to_json(), flush=True)
    say(table([HEAD, *map(line, [record])]))
    return 0 if record.ok else 1


def _repeat(options: argparse.Namespace) -> Repeat:
    words = tuple(options.words[1:] if options.words[:1] == ["--"] else options.words)
    if not words:
        raise WorkloadsError("no script is named; write it after --, such as: script -- train.py --lr 1e-3")
    asked = Script(
        words,
        folder=str(Path(options.folder or os.getcwd()).absolute()),
        data=options.data,
        steps=options.steps,
        epochs=options.epochs,
        processes=options.processes,
        whole=options.whole,
    )
    check_script(asked)
    case = own_case(asked, parse_size(options.size), options.name)
    taken = ("case", "script", "data", "profile", "trial", "cold_cache")
    names = [
        field.name for field in fields(Repeat) if field.name not in taken and hasattr(options, field.name)
    ]
    return Repeat(case=case, script=asked, **{name: getattr(options, name) for name in names})
