"""python -m workloads: measure on a box that has nothing but torch, numpy and psutil."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NoReturn

from workloads.harness.engine.device import DEVICES
from workloads.harness.engine.measure import measure
from workloads.harness.engine.phases import Phases, since_process_start_s
from workloads.harness.fitness import before_measuring, findings
from workloads.harness.group.launch import follow, lead, taken_seat
from workloads.harness.largest import answer, find_largest, first_case
from workloads.harness.model_table import model_table
from workloads.harness.probes.cpu import cores
from workloads.harness.records.case import PRECISIONS, Case, parse_size
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import make_folder, read_records, record_path, write_record
from workloads.harness.records.record import Record
from workloads.harness.records.text import HEAD, comparison, detail, line, table
from workloads.harness.registry import all_workloads, find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import Repeat, be_a_good_child
from workloads.harness.repeat.series import measure_suite
from workloads.harness.repeat.suite import load_suite, suite_names
from workloads.harness.roofline.bounds import roofline_json, roofline_text
from workloads.loadtest import command as load_test


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
    for suite in map(load_suite, suite_names()):
        print(f"suite {suite.name}: {suite.title}; {len(suite.cases)} cases, about {suite.minutes:.0f} min")
    return 0


def _repeat(options: argparse.Namespace, case: Case, **more: Any) -> Repeat:
    """A repeat with what every command that measures is told."""
    return Repeat(
        options.run,
        options.hardware,
        case,
        seed=options.seed,
        device=options.device,
        threads=options.threads,
        quick=options.quick,
        brief=options.brief,
        profile=options.profile,
        data=options.data,
        cold_cache=options.cold_cache,
        **more,
    )


def _run(options: argparse.Namespace) -> int:
    phases = Phases(since_process_start_s())
    records_out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a workload prints must not end up among the records
    repeat = _repeat(
        options,
        find(options.workload).case(parse_size(options.size), options.precision),
        repeat=options.repeat,
        order=options.order,
        timeout_s=options.timeout_s,
        trial=options.trial,
    )
    workload = find(options.workload)
    seat = taken_seat(workload, repeat)
    be_a_good_child(options.device, seat.world if seat else 1)
    if seat:
        return follow(repeat, seat, phases, say, records_out)
    with ExitStack() as held:
        with phases("waiting"):
            lock = held.enter_context(whole_box(say))
        if workload.in_group:
            record = lead(repeat, lock, phases.wall_s() - phases.seconds["waiting"])
        else:
            record = measure(repeat, options.threads or cores(), phases, say)
    print(record.to_json(), file=records_out, flush=True)
    say(table([HEAD, line(record)]))
    return 0 if record.ok else 1


def _suite(options: argparse.Namespace) -> int:
    suite = load_suite(options.name).tiny() if options.tiny else load_suite(options.name)
    if load_test.is_meant(options, suite):
        return load_test.run(options, suite, _repeat(options, suite.cases[0]))
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record)
        if not options.out:
            print(record.to_json(), flush=True)
        elif not write_record(options.out, record):
            say(f"{options.out / record_path(record)} is there already and stays as it was")

    if options.out:
        make_folder(options.out)
    measure_suite(suite, _repeat(options, suite.cases[0]), options.repeats or suite.repeats, say, keep)
    say(table([HEAD, *map(line, records)]))
    return 0 if all(record.ok for record in records) else 1


def _model(options: argparse.Namespace) -> int:
    print(model_table(find(options.workload).case(parse_size(options.size)), options.threads or cores()))
    return 0


def _largest(options: argparse.Namespace) -> int:
    case = first_case(options.workload, parse_size(options.size), options.grow, options.precision)
    first = _repeat(options, case, timeout_s=options.timeout_s)
    found = find_largest(first, options.grow, options.limit, say)
    print(answer(found, options.grow, options.limit))
    return 0 if found.fits and not found.reason else 1


def _check(options: argparse.Namespace) -> int:
    found = before_measuring(options.before, options.gpus) if options.before else findings()
    print("\n".join(f"{'ok  ' if fit else 'warn'}  {text}" for fit, text in found))
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


def _roofline(options: argparse.Namespace) -> int:
    records, sound = _read(options.path)
    print(roofline_json(records) if options.json else roofline_text(records))
    return 0 if sound else 1


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
    sub.add_argument("--size", required=True, help="such as n=1000 or pixels=1024,batch=2")
    sub.add_argument("--repeat", type=_count, default=1, help="number of this repeat")
    sub.add_argument("--order", type=_place, default=0, help="place in the shuffled order")
    sub.add_argument("--trial", action="store_true", help="only see whether it fits: one step, no timing")
    _one_case(sub)

    sub = command("suite", _suite, "Measure a suite, each repeat in a fresh process, in shuffled order.")
    sub.add_argument("name", help="name of a suite, or path of a TOML file")
    sub.add_argument(
        "--repeats", type=_count, help="fresh processes per case, the suite's own number by default"
    )
    sub.add_argument("--tiny", action="store_true", help="tiny sizes, once each: does everything run here?")
    sub.add_argument("--out", type=Path, help="folder for the records; standard output by default")
    _measuring(sub)
    load_test.add_options(sub)

    sub = command("model", _model, "Show a workload's model: layers, output shapes, parameters.")
    sub.add_argument("workload", help="name of a workload that has a model")
    sub.add_argument("--size", required=True, help="such as batch=64")
    sub.add_argument("--threads", type=_count, help="CPU threads; the physical cores we may use by default")

    sub = command("largest", _largest, "Find the largest value of a size parameter that fits in memory.")
    sub.add_argument("--grow", required=True, help="the size parameter to grow, such as batch")
    sub.add_argument("--limit", type=_count, help="grow no further than this")
    sub.add_argument("--size", default="", help="the others, such as pixels=4096; where to begin, if given")
    _one_case(sub)

    sub = command("check", _check, "Say whether this machine is fit to measure on.")
    sub.add_argument("--before", choices=DEVICES, help="only what would spoil every measurement there")
    sub.add_argument("--gpus", type=int, default=1, help="GPUs that --before cuda wants to see")

    sub = command("show", _show, "Show records: a file, or all below a folder.")
    sub.add_argument("path", type=Path)
    sub.add_argument("--json", action="store_true", help="print JSON lines")

    sub = command("roofline", _roofline, "Say what bounds each case, by the ceilings among the records.")
    sub.add_argument("path", type=Path, help="file of records or a run's folder")
    sub.add_argument("--json", action="store_true", help="print one JSON object")

    sub = command("compare", _compare, "Compare two sets of records case by case.")
    sub.add_argument("base", type=Path, help="file or folder that speedups are taken against")
    sub.add_argument("other", type=Path)
    return parser


def _one_case(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("workload", help="name of a workload, see list")
    sub.add_argument("--precision", default="fp32", help=f"one of {', '.join(PRECISIONS)}")
    sub.add_argument("--timeout-s", type=float, default=600.0, help="seconds after which it is given up")
    _measuring(sub)


def _measuring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--device", default="cpu", choices=DEVICES, help="what computes")
    sub.add_argument("--threads", type=_count, help="CPU threads; the physical cores we may use by default")
    sub.add_argument("--seed", type=int, default=0, help="for inputs and order")
    sub.add_argument("--quick", action="store_true", help="less patience with a machine that won't settle")
    sub.add_argument("--brief", action="store_true", help="a few samples, however imprecise: does it run?")
    sub.add_argument("--profile", action="store_true", help="a profile pass after the timed one")
    sub.add_argument("--cold-cache", action="store_true", help="empty the cache before each sample")
    sub.add_argument(
        "--data", type=_folder, help="folder with real data sets; drawn from the seed by default"
    )
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


def _folder(text: str) -> str:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no folder; name the one that holds the data sets")
    return str(Path(text).absolute())


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
