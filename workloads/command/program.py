"""`python -m workloads command`: record any command's time and the numbers in its output."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from workloads.command.measure import repeat_of
from workloads.command.output import Records, say
from workloads.harness.probes.device_here import has_driver
from workloads.harness.records.case import parse_size
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.program import LOADER, Program
from workloads.harness.records.script import Script
from workloads.harness.records.text import HEAD, line, script_facts, table
from workloads.harness.repeat.commands import (
    LOADED,
    check_load,
    load_of,
    metrics_of,
    pairs_of,
    server_table,
    serving_of,
    variables_of,
)
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.script_runs import run_script
from workloads.harness.script.command import check_script, own_case


def command(options: argparse.Namespace) -> int:
    words = tuple(options.words[1:] if options.words[:1] == ["--"] else options.words)
    entry = server_table(options.serve, options.ready, options.ready_timeout_s, options.slo, options.load)
    if serving := serving_of(entry):
        words = words or load_of(entry, serving)
    if not words:
        raise WorkloadsError("no command is given; write it after --, such as: command -- ./simulate 1000")
    script = Script(
        words,
        folder=os.path.abspath(options.folder or os.getcwd()),
        data=options.data,
        keep=options.keep and str(options.keep.absolute()),
        program=Program(
            metrics_of(options.metric or (LOADED if words[:2] == LOADER else ())),
            options.warm_ups,
            variables_of(pairs_of(options.env)),
            serving,
        ),
    )
    check_script(script)
    options.device = options.device or ("cuda" if has_driver() else "cpu")  # a command needs no torch
    case = own_case(script, parse_size(options.size), options.name)
    check_load(words, [case])
    repeat = repeat_of(options, case)
    with whole_box(say) as lock:
        record = run_script(replace(repeat, script=script, data=None), lock, say)
    output = Records()
    output.put(record)
    say(table([HEAD, *map(line, [record])]))
    for name, text in script_facts(record.script) if record.script else ():
        say(f"{name}: {text}")
    return 0 if record.ok and not output.kept else 1
