"""python -m workloads: measure on a box that has nothing but torch, numpy and psutil."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn

from workloads.harness.case import PRECISIONS, parse_size
from workloads.harness.device import DEVICES
from workloads.harness.errors import RecordError, WorkloadsError
from workloads.harness.exclusive import whole_box
from workloads.harness.files import make_folder, read_records, record_path, write_record
from workloads.harness.fitness import findings
from workloads.harness.measure import measure
from workloads.harness.phases import Phases, since_process_start_s
from workloads.harness.probes.cpu import cores
from workloads.harness.record import Record
from workloads.harness.registry import all_workloads, find
from workloads.harness.runs import Repeat, be_a_good_child
from workloads.harness.series import measure_suite
from workloads.harness.suite import load_suite, suite_names
from workloads.harness.words import HEAD, comparison, detail, line, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code: 0 all well, 1 a verdict not ok, 2 a mistake in the call."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except WorkloadsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


def say(text: str) -> None:
    """Progress goes to standard error; standard output is for records."""
    print(text, file=sys.stderr, flush=True)


def _list(options: argparse.Namespace) -> int:
    known = all_workloads().values()
    if options.json:
        print(json.dumps({w.name: {"summary": w.summary, "sizes": w.sizes, "tiny": w.tiny} for w in known}))
        return 0
    for workload in known:
        print(f"{workload.name}: {workload.summary}")
        for name, values in workload.sizes.items():
            print(f"    {name}: {', '.join(map(str, values))}")
    print(f"suites: {', '.join(suite_names()) or 'none here'}")
    return 0


def _run(options: argparse.Namespace) -> int:
    phases = Phases(since_process_start_s())
    records_out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a workload prints must not end up among the records
    repeat = Repeat(
        run=options.run,
        hardware=options.hardware,
        case=find(options.workload).case(parse_size(options.size), options.precision),
        repeat=options.repeat,
        order=options.order,
        seed=options.seed,
        device=options.device,
        threads=options.threads,
        quick=options.quick,
    )
    be_a_good_child(options.device)
    with ExitStack() as held:
        with phases("waiting"):
            held.enter_context(whole_box(say))
        record = measure(repeat, options.threads or cores(), phases, say)
    print(record.to_json(), file=records_out, flush=True)
    say(table([HEAD, line(record)]))
    return 0 if record.ok else 1


def _suite(options: argparse.Namespace) -> int:
    suite = load_suite(options.name)
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record)
        if not options.out:
            print(record.to_json(), flush=True)
        elif not write_record(options.out, record):
            say(f"{options.out / record_path(record)} is there already and stays as it was")

    if options.out:
        make_folder(options.out)
    base = Repeat(
        options.run, options.hardware, suite.cases[0], device=options.device, threads=options.threads
    )
    measure_suite(suite, base, options.repeats or suite.repeats, options.seed, options.quick, say, keep)
    say(table([HEAD, *map(line, records)]))
    return 0 if all(record.ok for record in records) else 1


def _check(options: argparse.Namespace) -> int:
    found = findings()
    for fit, text in found:
        print(f"{'ok  ' if fit else 'warn'}  {text}")
    return 0 if all(fit for fit, _ in found) else 1


def _show(options: argparse.Namespace) -> int:
    records, sound = _read(options.path)
    if options.json:
        print("\n".join(record.to_json() for record in records))
    elif len(records) == 1:
        print(detail(records[0]))
    elif records:
        print(table([HEAD, *map(line, records)]))
    return 0 if sound else 1


def _compare(options: argparse.Namespace) -> int:
    (base, base_sound), (other, other_sound) = _read(options.base), _read(options.other)
    print(comparison(base, other))
    return 0 if base_sound and other_sound else 1


def _read(path: Path) -> tuple[list[Record], bool]:
    """The readable records at a path, and whether all were; the others are named on standard error."""
    records, sound = [], True
    for item in read_records(path):
        if isinstance(item, RecordError):
            say(f"error: {item}")
            sound = False
        else:
            records.append(item)
    if sound and not records:
        raise WorkloadsError(f"{path} holds no records; name a file of records or a run's folder")
    return records, sound


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workloads", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        return sub

    sub = command("list", _list, "List workloads, their sizes, and suites.")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = command("run", _run, "Measure one case once; print its record as one line of JSON.")
    sub.add_argument("workload", help="name of a workload, see list")
    sub.add_argument("--size", required=True, help="such as n=1000 or pixels=1024,batch=2")
    sub.add_argument("--precision", default="fp32", help=f"one of {', '.join(PRECISIONS)}")
    sub.add_argument("--repeat", type=_count, default=1, help="number of this repeat")
    sub.add_argument("--order", type=_place, default=0, help="place in the shuffled order")
    _measuring(sub)

    sub = command("suite", _suite, "Measure a suite, each repeat in a fresh process, in shuffled order.")
    sub.add_argument("name", help="name of a suite, or path of a TOML file")
    sub.add_argument(
        "--repeats", type=_count, help="fresh processes per case, the suite's own number by default"
    )
    sub.add_argument("--out", type=Path, help="folder for the records; standard output by default")
    _measuring(sub)

    command("check", _check, "Say whether this machine is fit to measure on.")

    sub = command("show", _show, "Show records: a file, or all below a folder.")
    sub.add_argument("path", type=Path)
    sub.add_argument("--json", action="store_true", help="print JSON lines")

    sub = command("compare", _compare, "Compare two sets of records case by case.")
    sub.add_argument("base", type=Path, help="file or folder that speedups are taken against")
    sub.add_argument("other", type=Path)
    return parser


def _measuring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--device", default="cpu", choices=DEVICES, help="what computes")
    sub.add_argument("--threads", type=_count, help="CPU threads; the physical cores we may use by default")
    sub.add_argument("--seed", type=int, default=0, help="for inputs and order")
    sub.add_argument("--quick", action="store_true", help="less patience with a machine that won't settle")
    sub.add_argument("--run", default="bare", help="name of the run, kept in the record")
    sub.add_argument("--hardware", type=_name, default="here", help="name of the machine, kept in the record")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number above 0")
    return int(text)


def _place(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 0 on")
    return int(text)


def _name(text: str) -> str:
    if not re.fullmatch(r"\w[\w .+@-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: letters, digits, dots and dashes make one")
    return text


def _end(code: int) -> NoReturn:
    """Exit at once: threads that a workload left running must not keep the box."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # whoever read us may be gone, as in `show … | head`
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(main())
