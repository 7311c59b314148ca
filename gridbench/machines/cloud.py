"""The steps of `up`, `status` and `down` for every cloud."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from gridbench.terminal import say
from tasks.planning import hardware
from tasks.pricing.facts import Fact, load_facts

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation")]
Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="FLAVOUR=REFERENCE",
        help="Published image of a flavour, such as cpu=HOST/NAME@sha256:…, in place of building one; "
        "can be given several times",
    ),
]


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud's name on the command line, and its service's name."""

    name: str
    service: str

    def command(self, verb: str) -> str:
        return f"`gridbench {verb} {self.name}`"

    @contextmanager
    def interruptible(self, verb: str) -> Iterator[None]:
        """Print after Ctrl-C how to continue."""
        try:
            yield
        except KeyboardInterrupt:
            say(
                f"{self.service} goes on with it; {self.command('status')} shows it; "
                f"run {self.command(verb)} again"
            )
            raise

    def show_left(
        self, outcome: str, name: str, where: str, lines: Sequence[str], unchecked: Sequence[str]
    ) -> int:
        """Print remaining objects; return the exit code, 1 if there are any.

        Args:
            outcome: of the caller's search or deletion, such as "down".
            lines: the remaining objects, one kind a line.
            unchecked: a sentence for each kind that could not be searched.
        """
        for sentence in unchecked:
            say(f"not checked: {sentence}")
        if not lines:
            say(f"{outcome}; nothing of {name} is left in {where}")
            return 0
        say(f"{outcome}, but this is left in {where}; run {self.command('down')} again:")
        show_lines(lines)
        return 1


def show_lines(lines: Sequence[str]) -> None:
    for line in lines:
        say(f"  {line}")


def show_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"Note: {note}.")


def prices() -> tuple[Fact, ...]:
    return load_facts(hardware.DEPLOYMENTS)


def usd_cell(amount: float | None) -> str:
    """Return an amount as a table cell; a question mark if it is unknown."""
    return "?" if amount is None else f"{amount:.3f}"
