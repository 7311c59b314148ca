"""The command `fits`."""

from typing import Annotated

import typer
from rich.markup import escape

from gridbench.run.box import BOX, with_boxes
from gridbench.run.command import local_hardware
from gridbench.terminal import log_or_screen, say, table_of
from tasks.planning.hardware import Hardware, hardware_names, load_suite_checked, suites
from tasks.planning.machines import machines_of
from tasks.planning.memory import Predicted, predict
from tasks.planning.plan import PlannedCase
from tasks.planning.request import RunRequest
from workloads.harness.checks.fits import Fit
from workloads.harness.records.text import gigabytes
from workloads.harness.repeat.suite_case import SuiteCase

COLOURS = {Fit.FITS: "green", Fit.CLOSE: "yellow", Fit.NO: "red", Fit.UNKNOWN: "dim"}


def fits(
    suite: Annotated[
        str, typer.Argument(help=f"Cases to check: {', '.join(suites())}, or the path of a suite file")
    ] = "quick",
    on: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Hardware; repeat the option for several: {', '.join(hardware_names())}; or {BOX}"
        ),
    ] = None,
) -> None:
    """Predict the peak memory of each case and whether it fits.

    The exit code is 1 if a case does not fit.
    """
    machines = machines_of(with_boxes(RunRequest(hardware=tuple(on or local_hardware()))))
    entries = load_suite_checked(suite).entries
    found = predict((m, _planned(entry)) for m in machines for entry in entries if entry.is_for(m.device))
    table = table_of(
        "Predicted peak memory",
        "hardware",
        "case",
        "needs",
        "has",
        "",
        "should fit",
        right=("needs", "has"),
    )
    for row in found:
        table.add_row(*_row(row))
    log_or_screen().print(table)
    for row in found:
        if row.fit is Fit.UNKNOWN:
            say(f"{row.cell.id}: {_why(row, machines)}")
    raise typer.Exit(1 if any(row.fit is Fit.NO for row in found) else 0)


def _planned(entry: SuiteCase) -> PlannedCase:
    return PlannedCase.of(entry.case, entry.threads, entry.soak_s, entry.script)


def _row(row: Predicted) -> tuple[str, ...]:
    most = row.needs.most_bytes
    needs = gigabytes(most * (row.room.processes if row.room else 1)) if most is not None else ""
    has = gigabytes(row.room.bytes) if row.room else ""
    colour = COLOURS[row.fit]
    names = (escape(row.cell.hardware), escape(row.cell.case.id))
    return (*names, needs, has, f"[{colour}]{row.fit}[/]", escape(row.best))


def _why(row: Predicted, machines: list[Hardware]) -> str:
    if row.needs.reason:
        return row.needs.reason
    return f"the memory of {row.cell.hardware} is unknown; set memory_gb or gpu in its hardware file"
