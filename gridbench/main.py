"""The program `gridbench`: its commands in groups, each imported when used."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TextIO, cast

import typer
from typer.core import TyperCommand, TyperGroup

from gridbench.terminal import check_utf8, warn
from infra.errors import InfraError
from tasks.errors import GridbenchError
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.streams import Forgiving, begin_whole

UTF8 = "PYTHONUTF8"


class LazyCommand(NamedTuple):
    """A command before its module is imported.

    Attributes:
        place: `module:name` of its function, or of its Typer app if it has subcommands.
        help: the first line of its help; a test compares both.
    """

    place: str
    help: str


GROUPS: dict[str, dict[str, LazyCommand]] = {
    "Measure": {
        "run": LazyCommand("run.command:run", "Measure a suite and print the answer."),
        "train": LazyCommand(
            "run.train:train", "Measure your own training script and predict its whole job."
        ),
        "command": LazyCommand(
            "run.any_command:command",
            "Measure any command on machines: its time, and the numbers in its output.",
        ),
        "fits": LazyCommand("run.fits:fits", "Predict the peak memory of each case and whether it fits."),
        "predict": LazyCommand(
            "run.predict:predict",
            "Predict time and cost on machines that have not measured a run's cases.",
        ),
        "resume": LazyCommand(
            "run.command:resume", "Finish an interrupted run, keeping its measured repeats."
        ),
        "confirm": LazyCommand("run.confirm:confirm", "Measure again what decides a run's answer."),
    },
    "Read results": {
        "show": LazyCommand("read:show", "List the runs, or show the records of one."),
        "report": LazyCommand("read:report", "Write the report of a run again from its records."),
        "import": LazyCommand("imported:import_", "Make a run of records that were measured elsewhere."),
        "compare": LazyCommand("watch.history:compare", "Write the report of two runs against each other."),
        "site": LazyCommand(
            "watch.history:site", "Write static pages with a trend for each case over all runs."
        ),
        "history": LazyCommand("watch.history:history", "Show the nights of a case, with its changes."),
    },
    "Watch for regressions": {
        "gate": LazyCommand("watch.gate:gate", "Compare two runs and fail if a cell got slower."),
        "bisect": LazyCommand("watch.bisect:bisect", "Find the version that changed the time of a case."),
        "alert": LazyCommand(
            "watch.alerts:alert", "Send a message when a night fails or a case gets slower."
        ),
        "reference": LazyCommand("watch.reference:reference", "Freeze this environment as a reference."),
    },
    "Judge published numbers": {
        "check": LazyCommand("check:check", "Find impossible numbers in a published table."),
        "prices": LazyCommand("prices:app", "List the prices of machines, or refresh them."),
        "offers": LazyCommand(
            "prices:offers",
            "List machines with GPUs that providers rent out, the cheapest first, and how to reach each.",
        ),
    },
    "Machines": {
        "up": LazyCommand("machines.stacks:up_app", "Start a local server with workers, or set up a cloud."),
        "status": LazyCommand("machines.stacks:status_app", "Show the resources in a cloud and their cost."),
        "down": LazyCommand(
            "machines.stacks:down_app", "Delete everything in a cloud and check that nothing is left."
        ),
        "lambda": LazyCommand(
            "machines.lambda_cloud:app", "List and return machines rented at Lambda Cloud."
        ),
        "ssh": LazyCommand("machines.ssh:app", "Check a box behind SSH."),
        "image": LazyCommand("machines.image:app", "Build or push the container image of jobs."),
        "pool": LazyCommand("machines.pools:pool", "Print the base job template of a Kubernetes pool."),
    },
    "Diagnose": {"doctor": LazyCommand("doctor:doctor", "Check this machine and suggest fixes.")},
}
COMMANDS = {
    name: (group, command) for group, commands in GROUPS.items() for name, command in commands.items()
}
# Options after the command belong to the command.
SETTINGS = {name: {"allow_interspersed_args": False} for name in ("train", "command")}


class LoadedCommands(Mapping[str, Any]):
    """Commands by name, imported at their lookup."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __getitem__(self, name: str) -> Any:
        return load(name)


def load(name: str) -> Any:
    group, (place, _) = COMMANDS[name]
    module, _, attribute = place.partition(":")
    command = getattr(import_module(f"gridbench.{module}"), attribute)
    if isinstance(command, typer.Typer):
        loaded: Any = typer.main.get_group(command)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name, context_settings=SETTINGS.get(name))(command)
        loaded = typer.main.get_command(single)
    loaded.name, loaded.rich_help_panel = name, group
    return loaded


class Grouped(TyperGroup):
    """The commands in the order of their groups. Listing them imports none."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.commands = cast(Any, LoadedCommands())

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        group, command = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=command.help, rich_help_panel=group)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(str(name)), rest


app = typer.Typer(
    cls=Grouped,
    help="Which machine should run this torch workload, at what speed and at what price?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _use_state(folder: Path | None) -> Path | None:
    """Set the folder before the command is imported, which reads it then."""
    if folder is not None:
        os.environ["GRIDBENCH_STATE"] = str(folder.absolute())
    return folder


@app.callback()
def _program(
    state: Annotated[
        Path | None,
        typer.Option(
            callback=_use_state,
            help="Folder for the files of the local server",
            show_default=".gridbench/ in the checkout",
            metavar="<path>",
        ),
    ] = None,
) -> None:
    """Make the program a group although it registers no command here."""


def main() -> None:
    """Print a user's error as one sentence, without a traceback."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    _start_as_utf8()
    begin_whole()
    output = Forgiving(sys.stdout)
    sys.stdout = cast(TextIO, output)
    code: str | int | None = 0
    try:
        _call()
    except SystemExit as end:
        code = end.code
    output.flush()
    if output.fault:
        warn(f"error: standard output can't be written ({output.fault}); `gridbench show` lists the runs")
    sys.exit(code or int(bool(output.fault)))


def _start_as_utf8() -> None:
    """Restart in Python's UTF-8 mode if this process reads file names as ASCII."""
    if sys.getfilesystemencoding() == "ascii" and os.environ.get(UTF8) != "1":
        os.execve(sys.executable, sys.orig_argv, os.environ | {UTF8: "1"})


def _call() -> None:
    try:
        for word in sys.argv[1:]:
            check_utf8("argument", word)
        app()
    except (GridbenchError, InfraError, WorkloadsError) as error:
        warn(f"error: {error}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
