"""Terminal output and options that all commands share."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from tasks.errors import GridbenchError
from tasks.store.address import ResultsAddress
from workloads.harness.records.printable import printable_lines


class PlainConsole(Console):
    """A console without texts' control sequences: names, titles and errors can come from a box."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))


console = PlainConsole(emoji=False)  # a block or a case can be named `:x:`
LOG_WIDTH = 140  # columns of a table if the output is not a terminal
Results = Annotated[
    ResultsAddress,
    typer.Option(
        help="Folder of the results store, or a block s3-bucket/NAME",
        metavar="<path>",
        parser=lambda value: ResultsAddress.parse(str(value)),  # click passes the default through it, too
        show_default="results/ in the checkout",
    ),
]
RunName = Annotated[str, typer.Argument(help="Name of a run or its beginning")]


def log_or_screen() -> Console:
    """Return the terminal, or else a console wide enough for whole names."""
    return console if console.is_terminal else PlainConsole(width=max(console.width, LOG_WIDTH), emoji=False)


def say(text: str) -> None:
    """Print a sentence unchanged: no markup, colours or line breaks."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def warn(text: str) -> None:
    """Print to stderr, so that programs can parse stdout."""
    PlainConsole(stderr=True, emoji=False).print(text, soft_wrap=True, highlight=False, markup=False)


def confirm(question: str, yes: bool) -> None:
    if yes:
        return
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise GridbenchError("not confirmed: nothing was changed; --yes skips the question")


def check_utf8(what: str, text: str) -> None:
    """Raise `GridbenchError` for a text that is not UTF-8, which Prefect and JSON can't hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise GridbenchError(
            f"{what} {str(os.fsencode(text))[1:]} is not UTF-8: rename the file or folder, or name another"
        ) from None


def current_folder() -> Path:
    check_utf8("the current folder", os.getcwd())
    return Path.cwd()


def table_of(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def share_of(option: str, text: str) -> float:
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise GridbenchError(
            f"{option}={text!r} must be from 0 to below 1, such as 0.02, or a percentage, such as 2%"
        )
    return share
