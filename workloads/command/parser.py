"""The arguments of `python -m workloads`."""

import argparse
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from workloads.command import fork_server, measure, program, roof, script
from workloads.command.compare import compare, read
from workloads.command.mistakes import Parser
from workloads.harness.checks.fitness import before_measuring, findings
from workloads.harness.records.case import DEVICES, EAGER, MODES, PRECISIONS
from workloads.harness.records.program import EXAMPLE
from workloads.harness.records.text import HEAD, detail, line, table
from workloads.harness.repeat.commands import READY, READY_TIMEOUT_S
from workloads.harness.roofline.bounds import roofline_json, roofline_text
from workloads.loadtest.command import FINEST_S, SAMPLE_RATE_S

Command = Callable[[argparse.Namespace], int]


def parser(description: str) -> Parser:
    """Return the parser of all subcommands; it stores the subcommand's function as `command`."""
    top = Parser(prog="python -m workloads", description=description)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function, parser=sub)
        return sub

    sub = command("list", measure.list_all, "List workloads, their sizes, and suites.")
    sub.add_argument("--json", action="store_true", help="print JSON")
    _add_run(command("run", measure.run, "Measure one case once; print its record as one line of JSON."))
    _add_script(
        command("script", script.script, "Measure your own training script, unchanged: script -- train.py.")
    )
    _add_command(
        command("command", program.command, "Measure any command: its time, and the numbers that it prints.")
    )
    _add_suite(
        command(
            "suite", measure.suite, "Measure a suite in shuffled rounds, each repeat in a separate process."
        )
    )
    _add_model(command("model", measure.model, "Show a workload's model: layers, output shapes, parameters."))
    _add_largest(
        command("largest", measure.largest, "Find the largest value of a size parameter that fits in memory.")
    )
    _add_check(command("check", check, "Check whether this machine is fit to measure on."))
    _add_roof(
        command(
            "roof",
            roof.roof,
            "Measure this machine's best rates, store them by machine and software, and show them.",
        )
    )
    sub = command("show", show, "Show records: a file, or all below a folder.")
    sub.add_argument("path", type=Path)
    sub.add_argument("--json", action="store_true", help="print JSON lines")
    sub = command(
        "roofline", roofline, "Show what limits each case, by the measured ceilings among the records."
    )
    sub.add_argument("path", type=Path, help="file of records or a run's folder")
    sub.add_argument("--json", action="store_true", help="print one JSON object")
    sub = command("compare", compare, "Compare two sets of records case by case.")
    sub.add_argument("base", type=Path, help="file or folder that speedups are relative to")
    sub.add_argument("other", type=Path)
    sub = commands.add_parser("repeat")  # for our own processes, so help does not list it
    sub.add_argument("json", help="the repeat to measure")
    sub.set_defaults(command=measure.repeat)
    sub = commands.add_parser("fork-server")  # as `repeat`
    sub.add_argument("descriptor", type=int, help="the socket for its orders")
    sub.set_defaults(command=partial(fork_server.serve, measure=measure.forked))
    commands.add_parser("needs").set_defaults(command=measure.needs)  # for planning
    return top


def _add_run(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--size", required=True, help="such as n=1000 or pixels=1024,batch=2")
    sub.add_argument("--repeat", type=_count, default=1, help="number of this repeat")
    sub.add_argument(
        "--order",
        type=partial(_count, least=0),
        default=0,
        help="position of this repeat in the shuffled order",
    )
    sub.add_argument(
        "--soak-s",
        type=float,
        help="seconds of steps before the samples, to compare sustained speed with burst speed",
    )
    sub.add_argument(
        "--trial", action="store_true", help="only test whether it fits in memory: one step, no timing"
    )
    _add_case(sub)


def _add_script(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="a file, or -m and a module, with its arguments; {NAME} stands for a size, {data} for --data",
    )
    sub.add_argument("--steps", type=_count, help="predict the time of a job with this number of steps")
    sub.add_argument("--epochs", type=_count, help="predict the time of a job with this number of epochs")
    sub.add_argument(
        "--through",
        type=_count,
        help="steps or epochs to measure before the prediction, however long they take",
    )
    sub.add_argument(
        "--step-of",
        help="end a step with this optimizer's, such as AdamW or Adam:2, or with backward, forward, loader or mark",
    )
    sub.add_argument("--samples", type=_count, help="samples of a step, of all ranks; by default as seen")
    sub.add_argument("--whole", action="store_true", help="let it run to its end, without stopping it early")
    sub.add_argument("--out", type=Path, help="with --whole: folder for the record")
    sub.add_argument(
        "--processes", type=_count, default=1, help="ranks that train together, as under torchrun"
    )
    _add_own(sub)


def _add_command(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="a program with its arguments; {NAME} stands for a size, {seed} for the seed, {data} for --data",
    )
    sub.add_argument(
        "--metric",
        action="append",
        default=[],
        help=f"a number in its output, such as {EXAMPLE}; without any, its number is the time of a call",
    )
    sub.add_argument(
        "--warm-ups", type=partial(_count, least=0), default=0, help="calls before the counted one"
    )
    sub.add_argument("--env", action="append", default=[], help="a variable of its process: NAME=VALUE")
    server = sub.add_argument_group("options of a command that calls a server; without a command, ours does")
    server.add_argument("--serve", help="the server, such as 'vllm serve MODEL --port {port}'")
    server.add_argument("--ready", help=f"the address that answers once it serves; by default {READY}")
    server.add_argument(
        "--ready-timeout-s", type=float, help=f"seconds until it is ready; {READY_TIMEOUT_S:g} by default"
    )
    server.add_argument(
        "--slo", action="append", default=[], help="a promised latency, such as ttft_p99_ms=500"
    )
    server.add_argument(
        "--load", action="append", default=[], help="an option of the load, such as prompt_tokens=128-512"
    )
    _add_own(sub)


def _add_own(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--name", help="name of the case in records; by default its file's name")
    sub.add_argument("--size", default="", help="the command's variable parts, such as batch=16 for {batch}")
    sub.add_argument("--folder", type=_folder, help="folder that it runs in; by default the current one")
    sub.add_argument(
        "--keep", type=Path, help="folder that gets the files that it writes in its copy of the folder"
    )
    sub.add_argument("--repeat", type=_count, default=1, help="number of this repeat")
    sub.add_argument("--timeout-s", type=float, default=600.0, help="seconds after which it is stopped")
    _add_measuring(sub)


def _add_suite(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("name", help="name of a suite, or path of a TOML file")
    sub.add_argument("--repeats", type=_count, help="repeats of each case; the suite's own number by default")
    sub.add_argument(
        "--tiny", action="store_true", help="use tiny sizes, once each, to test whether everything runs here"
    )
    sub.add_argument("--out", type=Path, help="folder for the records; standard output by default")
    _add_measuring(sub)
    own = sub.add_argument_group("options of the suite loadtest")
    size = partial(_count, limit=10**9)
    own.add_argument("--num-epochs", type=size, help="epochs of each training test (3)")
    own.add_argument("--num-batches", type=size, help="batches of each epoch and inference test (200)")
    own.add_argument("--num-workers", type=partial(size, least=0), help="data loader processes (0)")
    own.add_argument("--output", "-o", type=Path, help="file for the results (loadtest_results_TIME.json)")
    own.add_argument("--log-file", type=Path, help="file for a detailed log")
    own.add_argument(
        "--metrics-sample-rate",
        type=_interval,
        help=f"seconds between the samples that the results show ({SAMPLE_RATE_S:g}); "
        f"peaks and averages use every sample, taken every {FINEST_S:g} s",
    )


def _add_model(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("workload", help="name of a workload that has a model")
    sub.add_argument("--size", required=True, help="such as batch=64")
    _add_threads(sub)


def _add_largest(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--grow", required=True, help="the size parameter to grow, such as batch")
    sub.add_argument("--limit", type=_count, help="grow no further than this")
    sub.add_argument(
        "--size",
        default="",
        help="the other size parameters, such as pixels=4096; its own value sets the start of the search",
    )
    _add_case(sub)


def _add_roof(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--minutes",
        type=_minutes,
        default=5.0,
        help="time limit; what does not fit is measured the next time",
    )
    sub.add_argument("--again", action="store_true", help="discard the stored results and measure again")
    _add_device(sub)
    sub.add_argument("--json", action="store_true", help="print JSON")


def _add_check(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--before", choices=DEVICES, help="only test for conditions that would spoil every measurement"
    )
    sub.add_argument("--gpus", type=int, default=1, help="number of GPUs that --before cuda expects")


def _add_case(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("workload", help="name of a workload, see list")
    sub.add_argument("--precision", default="fp32", help=f"one of {', '.join(PRECISIONS)}; some have fp8")
    sub.add_argument("--mode", default=EAGER, help=f"one of {', '.join(MODES)}; most have only eager")
    sub.add_argument("--timeout-s", type=float, default=600.0, help="seconds after which it is stopped")
    _add_measuring(sub)


def _add_measuring(sub: argparse.ArgumentParser) -> None:
    _add_device(sub)
    sub.add_argument("--seed", type=int, default=0, help="for inputs and order")
    sub.add_argument(
        "--quick", action="store_true", help="spend less time waiting for a machine to become steady"
    )
    sub.add_argument("--brief", action="store_true", help="take only a few samples, however imprecise")
    sub.add_argument("--profile", action="store_true", help="a profile pass after the timed one")
    sub.add_argument("--cold-cache", action="store_true", help="empty the cache before each sample")
    sub.add_argument(
        "--data", type=_folder, help="folder with real data sets; drawn from the seed by default"
    )
    sub.add_argument("--run", default="bare", help="name of the run, kept in the record")
    sub.add_argument("--hardware", type=_name, default="here", help="name of the machine, kept in the record")


def _add_device(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--device", choices=DEVICES, help="device that must compute; by default a GPU if torch sees one"
    )
    _add_threads(sub)


def _add_threads(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--threads", type=_count, help="CPU threads; by default the physical cores that this process can use"
    )


def _minutes(text: str) -> float:
    if not re.fullmatch(r"\d{1,4}(\.\d+)?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of minutes above 0, such as 5")
    return float(text)


def _count(text: str, least: int = 1, limit: float = math.inf) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) < limit):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a whole number {'above 0' if least else 'of 0 or more'}"
        )
    return int(text)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not FINEST_S <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be seconds, {FINEST_S:g} or more")
    return seconds


def _folder(text: str) -> str:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder; name an existing one")
    return str(Path(text).absolute())


def _name(text: str) -> str:
    if not re.fullmatch(r"\w[\w .+@-]*", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name; use letters, digits, spaces, and . + @ - _"
        )
    return text


def check(options: argparse.Namespace) -> int:
    results = before_measuring(options.before, options.gpus) if options.before else findings()
    print("\n".join(f"{'ok  ' if fit else 'warn'}  {text}" for fit, text in results))
    return 0 if all(fit for fit, _ in results) else 1


def show(options: argparse.Namespace) -> int:
    records, sound = read(options.path)
    if options.json:
        print("\n".join(record.to_json() for record in records))
    elif len(records) == 1:
        print(detail(records[0]))
    elif records:
        print(table([HEAD, *map(line, records)]))
    return 0 if sound else 1


def roofline(options: argparse.Namespace) -> int:
    records, sound = read(options.path)
    print(roofline_json(records) if options.json else roofline_text(records))
    return 0 if sound else 1
