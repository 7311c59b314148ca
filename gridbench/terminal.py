"""What every command shares: the terminal, plain sentences on it, and where results are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from tasks.errors import GridbenchError

console = Console(emoji=False)  # a block or a case may be named `:x:`
LOG_WIDTH = 140  # columns of a table where no terminal says how many there are
Results = Annotated[
    Path,
    typer.Option(
        help="Folder of the results store, or s3-bucket/NAME", show_default="results/ in the checkout"
    ),
]
RunName = Annotated[str, typer.Argument(help="Name of a run, or its beginning")]


def log_or_screen() -> Console:
    """The terminal; where there is none, something with room for whole names."""
    return console if console.is_terminal else Console(width=max(console.width, LOG_WIDTH), emoji=False)


def say(text: str) -> None:
    """Print a sentence as it is: no markup, no colours, no line breaks of the terminal's own."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def warn(text: str) -> None:
    """Print a sentence as it is to stderr: what a command prints may be read by a program."""
    Console(stderr=True, emoji=False).print(text, soft_wrap=True, highlight=False, markup=False)


def confirm(question: str, yes: bool) -> None:
    """Ask before anything is changed, unless `yes` was said already.

    Raises:
        GridbenchError: it was not agreed to.
    """
    if yes:
        return
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise GridbenchError("not confirmed, nothing was changed; --yes does it without asking")


def table_of(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table with these columns, those in `right` for numbers."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table
