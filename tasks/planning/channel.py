"""A run's night: its history and watched cases."""

from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field, model_validator

from tasks.errors import GridbenchError
from tasks.schema import Strict
from workloads.harness.records.errors import hint
from workloads.harness.repeat.suite import Suite

Word = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^\S+$")]


class Version(Strict):
    """A version of the measured software.

    Attributes:
        image: replaces that of the job variables.
        command: replaces the machine's, before arguments of `python -m workloads`.
        folder: of a user's script.
        partner: a version measured next to each repeat in place of a control.
    """

    name: Word
    image: Annotated[str, Field(min_length=1)] | None = None
    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    folder: Annotated[str, Field(min_length=1)] | None = None
    partner: "Version | None" = None

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        given = [value for value in (self.image, self.command, self.folder) if value is not None]
        if len(given) != 1:
            count = "several" if given else "none"
            raise ValueError(
                f"version {self.name} has {count} of image, command and folder: give the one that brings it"
            )
        if self.partner and (self.image or (self.folder is None) != (self.partner.folder is None)):
            raise ValueError(
                f"version {self.name} can't take turns with {self.partner.name}: give a command or a folder of each"
            )
        return self


class Night(Strict):
    """A run judged against earlier nights; only such a run measures controls.

    Attributes:
        channel: the watched software, such as a branch.
        confirms: the run or search whose suspects or versions it measures; in no series.
        cases: all if empty.
    """

    channel: Word = "main"
    confirms: Word | None = None
    cases: tuple[str, ...] = ()
    version: Version | None = None


def watched(suite: Suite, night: Night | None) -> Suite:
    """Return a night's cases, in the suite's order.

    Raises:
        GridbenchError: the suite lacks a case of the night.
    """
    if night is None or not night.cases:
        return suite
    case_ids = [case.id for case in suite.cases]
    for name in night.cases:
        if name not in case_ids:
            raise GridbenchError(
                f"night: cases has {name!r}, which suite {suite.name} lacks; {hint(name, case_ids)}"
            )
    return replace(suite, entries=tuple(entry for entry in suite.entries if entry.case.id in night.cases))
