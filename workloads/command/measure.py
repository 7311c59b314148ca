"""Commands that measure, and commands that list workloads, suites and models."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import fields, replace
from functools import partial
from typing import IO, Any

from workloads.command.largest import answer, find_largest, first_case
from workloads.command.model_table import model_table
from workloads.command.output import Records, say
from workloads.harness.engine.measure import measure
from workloads.harness.engine.phases import Phases, since_process_start_s
from workloads.harness.group.launch import follow, lead, membership_of
from workloads.harness.group.ranks import membership_in
from workloads.harness.probes.cpu import cores
from workloads.harness.probes.device_here import device_here
from workloads.harness.records.case import Case, parse_size
from workloads.harness.records.files import make_folder
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import HEAD, line, table
from workloads.harness.registry import all_workloads, find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import (
    COMMAND,
    PARENT,
    Running,
    be_a_good_child,
    die_with_parent,
    fresh,
    run_repeat,
)
from workloads.harness.repeat.series import measure_suite
from workloads.harness.repeat.suite import load_suite, suite_names
from workloads.harness.script.measure import RECORD, measure_script
from workloads.harness.script.program import measure_program
from workloads.loadtest import command as load_test

MISTAKE = 2  # the exit code of a call that is wrong


def list_all(options: argparse.Namespace) -> int:
    workloads = all_workloads().values()
    if options.json:
        rows = {
            w.name: {"summary": w.summary, "sizes": w.sizes, "tiny": w.tiny, "optional": dict(w.optional)}
            for w in workloads
        }
        print(json.dumps(rows))
        return 0
    for workload in workloads:
        print(f"{workload.name}: {workload.summary}")
        for name, values in workload.sizes.items():
            default = "optional"
            if (value := workload.optional.get(name)) is not None:
                default = f"{value} by default"
            text = f"; {default}" if name in workload.optional else ""
            print(f"    {name}: {', '.join(map(str, values))}{text}")
    for suite in map(load_suite, suite_names()):
        print(f"suite {suite.name}: {suite.title}; {len(suite.cases)} cases, about {suite.minutes:.0f} min")
    return 0


def run(options: argparse.Namespace) -> int:
    if PARENT not in os.environ and membership_in() is None:
        return _measure_in_child(_typed(options))
    phases = Phases(since_process_start_s())  # torchrun, or our own parent, watches this one
    return _measure_here(partial(_typed, options, phases), phases)


def repeat(options: argparse.Namespace) -> int:
    return _measure_here(partial(_ordered, options.json))


def forked(text: str, phases: Phases) -> int:
    return _measure_here(partial(_ordered, text), phases)


def suite(options: argparse.Namespace) -> int:
    suite = load_suite(options.name).tiny() if options.tiny else load_suite(options.name)
    if load_test.is_meant(options, suite):
        base = Repeat(case=suite.cases[0], **_given(options))
        return load_test.run(options, suite, base)
    records: list[Record] = []
    output = Records(options.out)

    def keep(record: Record) -> None:
        records.append(record)
        output.put(record)

    if options.out:
        make_folder(options.out)
    measure_suite(suite, repeat_of(options, suite.cases[0]), options.repeats or suite.repeats, say, keep)
    say(table([HEAD, *map(line, records)]))
    return 0 if all(record.ok for record in records) and not output.kept else 1


def model(options: argparse.Namespace) -> int:
    print(model_table(find(options.workload).case(parse_size(options.size)), options.threads or cores()))
    return 0


def largest(options: argparse.Namespace) -> int:
    size = parse_size(options.size)
    case = first_case(options.workload, size, options.grow, options.precision, options.mode)
    result = find_largest(repeat_of(options, case), options.grow, options.limit, say)
    print(answer(result, options.grow, options.limit))
    return 0 if result.fits and not result.reason else 1


def needs(options: argparse.Namespace) -> int:
    """Predict the memory of cases: a JSON list of questions in, a line each out."""
    from workloads.harness.checks.needs import answer as predict

    out = _records_out()
    for order in json.load(sys.stdin):
        print(json.dumps(predict(order)), file=out, flush=True)
    return 0


def repeat_of(options: argparse.Namespace, case: Case) -> Repeat:
    """Make a repeat from the options; without --device, on the device here."""
    return Repeat(case=case, **_given(options) | {"device": options.device or device_here()})


def _given(options: argparse.Namespace) -> dict[str, Any]:
    names = (field.name for field in fields(Repeat) if hasattr(options, field.name))
    return {name: getattr(options, name) for name in names}


def _typed(options: argparse.Namespace, phases: Phases | None = None) -> Repeat:
    case = find(options.workload).case(parse_size(options.size), options.precision, options.mode)
    with phases("find_device") if phases and not options.device else nullcontext():  # a process asks torch
        return repeat_of(options, case)


def _ordered(text: str) -> Repeat:
    order = Repeat.from_json(text)
    if order.script is not None:
        return order
    case = find(order.case.workload).case(order.case.params, order.case.precision, order.case.mode)
    return replace(order, case=case)


def _measure_in_child(repeat: Repeat) -> int:
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    processes: list[Running] = []
    last = ""

    def start(repeat: Repeat, lock: int, environ: Mapping[str, str]) -> Running:
        processes.append(fresh(repeat, lock, COMMAND, environ))
        return processes[0]

    def pass_on(text: str) -> None:
        nonlocal last
        last = text
        say(text)

    with whole_box(say) as lock:
        record = run_repeat(repeat, lock, pass_on, start=start)
    if (
        processes[0].returncode == MISTAKE
        and record.verdict is Verdict.CRASHED
        and last.startswith("error: ")
    ):
        return MISTAKE
    output = Records()
    output.put(record)
    say(table([HEAD, line(record)]))
    return 0 if record.ok and not output.kept else 1


def _measure_here(order: Callable[[], Repeat], phases: Phases | None = None) -> int:
    """Measure a repeat here, as a rank of its group, or by ranks started here."""
    phases = phases or Phases(since_process_start_s())
    records_out = _records_out()
    repeat = order()
    if repeat.script is not None:
        return _script_here(repeat, phases, records_out)
    workload = find(repeat.case.workload)
    membership = membership_of(workload, repeat)
    be_a_good_child(repeat.device, membership.world if membership else 1)
    if membership:
        return follow(repeat, membership, phases, say, records_out)
    with ExitStack() as stack:
        with phases("waiting"):
            lock = stack.enter_context(whole_box(say))
        if workload.in_group:
            record = lead(repeat, lock, phases.wall_s() - phases.seconds["waiting"])
        else:
            record = measure(repeat, repeat.threads or cores(), phases, say)
    print(record.to_json(), file=records_out, flush=True)
    say(table([HEAD, line(record)]))
    return 0 if record.ok else 1


def _records_out() -> IO[str]:
    if (own := os.environ.pop(RECORD, None)) is not None:
        record, *others = map(int, own.split(","))
        for descriptor in (record, *others):
            os.set_inheritable(descriptor, False)
        return os.fdopen(record, "w")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def _script_here(repeat: Repeat, phases: Phases, records_out: IO[str]) -> int:
    assert repeat.script is not None

    def keep(record: Record) -> None:
        print(record.to_json(), file=records_out, flush=True)

    if repeat.script.program:
        be_a_good_child(repeat.device)
        return measure_program(repeat, phases, keep)
    if not repeat.script.whole:
        be_a_good_child(repeat.device)
    elif PARENT in os.environ:
        die_with_parent()
    if membership_in() is None and repeat.script.processes > 1:
        with whole_box(say) as lock:
            record = lead(repeat, lock, phases.wall_s())
        keep(record)
        ended = record.script.exit_code if record.script and repeat.script.whole else None
        return int(not record.ok) if ended is None else ended
    return measure_script(repeat, phases, keep)
