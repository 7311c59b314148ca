"""One run against another, for CI: did any cell get slower, and with which exit code?"""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gridbench.terminal import Results, log_or_screen, say, table_of
from tasks.errors import GridbenchError, one_line
from tasks.findings.two_runs import Side
from tasks.regressions.run_gate import LEAST_CHANGE, Against, Standing, compare_cells
from tasks.report.text.run_gate import answer, change_text, numbers_text, share_text
from tasks.results.format import format_seconds
from tasks.store.bucket import Bucket, find, is_block
from tasks.store.store import DEFAULT, Store, runs
from tasks.store.sync import PLAN, shelf_of
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

STYLES = {Standing.SLOWER: "red", Standing.LOST: "red", Standing.FASTER: "green"}


def gate(
    against: Annotated[str, typer.Option(help="Name of the run that is good, or its beginning")],
    name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run to judge; the newest one by default")
    ] = None,
    least_change: Annotated[
        str, typer.Option(help="Changes below it are of no interest: 2% or 0.02")
    ] = f"{100 * LEAST_CHANGE:g}%",
    junit: Annotated[
        Path | None, typer.Option(help="Write the outcome of each cell into this file, as JUnit XML")
    ] = None,
    results: Results = DEFAULT,
) -> None:
    """Say whether any cell of RUN is slower than in another run, without any history.

    Exit codes:

    0: no cell is slower, and none is lost (ok in the other run, and not in this one)

    1: some are slower or lost

    2: the command was given something wrong

    3: not one cell could be decided, for want of repeats or on another machine

    Without any change at most 1 in 20 comparisons fails, whatever the number of cells.
    """
    least = _share(least_change)
    before = find(results, against)
    found, odd = _held(find(results, name or _newest(results)), before, least)
    if junit:
        _write(junit, found)
    _show(found)
    for sentence in dict.fromkeys([*found.notes, *odd]):
        say(f"note: {sentence}")
    say(answer(found))
    raise typer.Exit(found.exit_code)


def _held(now: Store, before: Store, least: float) -> tuple[Against, list[str]]:
    """A run held against another, and a sentence for each of their records that can't be read.

    Raises:
        GridbenchError: they are one run, or there is nothing to compare.
    """
    one, other = now.plan, before.plan
    if one.run == other.run:
        raise GridbenchError(f"run {one.run} can't be held against itself; name two runs")
    (side, odd), (other_side, more) = _side(now), _side(before)
    found = compare_cells(side, other_side, set(one.cells), least)
    if not found.cells:
        raise GridbenchError(f"runs {one.run} and {other.run} have no cell that could be compared")
    return found, [f"left out: {text}" for text in (*odd, *more)]


def _share(text: str) -> float:
    """A share from text.

    Raises:
        GridbenchError: it is none, or not from 0 to below 1.
    """
    number, percent = re.fullmatch(r"\s*(.*?)\s*(%?)\s*", text, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise GridbenchError(
            f"least_change={text!r} must be from 0 to below 1, such as 0.02, or a percentage, such as 2%"
        )
    return share


def _newest(results: Path) -> str:
    """Name of the newest run of a folder or of a bucket, of which one is known to be there.

    Raises:
        GridbenchError: the bucket can't be read.
    """
    if not is_block(results):
        return next(iter(runs(results)))
    try:
        shelf = shelf_of(Bucket.load(str(results)).storage)
        newest_first = sorted(shelf.runs(), reverse=True)
        return next(run for run in newest_first if shelf.read(f"{run}/{PLAN}") is not None)
    except GridbenchError:
        raise
    except Exception as error:  # storages raise whatever their libraries do
        raise GridbenchError(f"results: {results} can't be read: {one_line(error)}") from None


def _side(store: Store) -> tuple[Side, list[str]]:
    """The records of a run, and a sentence for each that can't be read.

    Raises:
        GridbenchError: it has none.
    """
    plan, (records, odd) = store.plan, store.records()
    if not records:
        raise GridbenchError(f"run {plan.run} has no record that can be read; `gridbench resume {plan.run}`")
    return Side(plan.run, tuple(records), tuple(plan.machines), plan.baseline), odd


def _write(path: Path, found: Against) -> None:
    from tasks.report.files.junit import junit_xml

    try:
        write_text(path, junit_xml(found))
    except WorkloadsError as error:
        raise GridbenchError(f"junit: {error}") from None


def _show(found: Against) -> None:
    """A line for each cell, the slower first; then why some of them are what they are."""
    title = f"{found.now.name} against {found.before.name}"
    columns = ("cell", "is", "before", "now", "change", "could show")
    table = table_of(escape(title), *columns, right=("before", "now", "change", "could show"))
    for one in found.cells:
        shift, style = one.shift, STYLES.get(one.standing, "")
        beside = " *" if shift and shift.paired else ""
        table.add_row(
            escape(one.cell.id),
            f"[{style}]{one.standing}[/]" if style else str(one.standing),
            format_seconds(one.before_s.value if one.before_s else None),
            format_seconds(one.now_s.value if one.now_s else None),
            f"{change_text(shift.change)}{beside}" if shift else "–",
            share_text(shift.smallest) if shift else "–",
        )
    log_or_screen().print(table)
    if any(one.shift and one.shift.paired for one in found.cells):
        say("* of its time over that of the control beside it, on the same box")
    for one in found.cells:
        if one.why:
            say(f"{one.cell.id}: {one.standing}, {numbers_text(one)}")
