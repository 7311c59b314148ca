"""The command `gate`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gridbench.terminal import Results, log_or_screen, say, share_of, table_of
from tasks.errors import GridbenchError, one_line
from tasks.findings.two_runs import ComparedRun
from tasks.regressions.baseline import LEAST_CHANGE
from tasks.regressions.change import MARGIN, RUN_EFFECT, SHOWING_CELLS, GateLimits
from tasks.regressions.run_gate import CellStatus, RunComparison, compare_cells
from tasks.report.text.run_gate import answer, change_of, most_of, numbers_text, status_text
from tasks.results.metrics import number_text
from tasks.store.address import DEFAULT, ResultsAddress
from tasks.store.bucket import Bucket, find
from tasks.store.run_files import PLAN, run_files_of
from tasks.store.store import Store, runs
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

STYLES = {CellStatus.SLOWER: "red", CellStatus.LOST: "red", CellStatus.FASTER: "green"}


def gate(
    against: Annotated[str, typer.Option(help="Name of the good run, or its beginning")],
    name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run to judge; the newest one by default")
    ] = None,
    least_change: Annotated[
        str, typer.Option(help="Ignore smaller changes: 2% or 0.02")
    ] = f"{100 * LEAST_CHANGE:g}%",
    margin: Annotated[
        str, typer.Option(help="Call a cell unchanged only if a change of this size is excluded")
    ] = f"{100 * MARGIN:g}%",
    run_effect: Annotated[
        str,
        typer.Option(
            help="Assumed standard deviation of a run's effect on a cell, for fewer than "
            f"{SHOWING_CELLS} cells"
        ),
    ] = f"{100 * RUN_EFFECT:g}%",
    allow_undecided: Annotated[
        bool, typer.Option("--allow-undecided", help="Exit with 0 although cells are undecided")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Write the outcome of each cell into this file, as JUnit XML")
    ] = None,
    results: Results = DEFAULT,
) -> None:
    """Compare two runs and fail if a cell got slower.

    Exit codes:

    0: no cell is slower, and none is lost (counted in the other run; refused, in part or whole, or missing
    in this one)

    1: some cells are slower or lost

    2: an argument is wrong

    3: some cells are undecided, because a slowdown by --margin is not excluded, a cell has one repeat, or others used
    the machine; with --allow-undecided only if no cell could be decided

    If nothing has changed, at most 1 in 20 comparisons fails. If a cell got slower by --margin, at most 1 in 20
    exits with 0. Both hold for effects of a run on single cells. One on all cells alike looks like slower code, or
    hides it, unless both runs have controls: without them, measure both one right after the other.
    """
    limits = GateLimits(
        share_of("least_change", least_change),
        share_of("margin", margin),
        share_of("run_effect", run_effect),
    )
    before = find(results, against)
    comparison, problems = _compared(find(results, name or _newest(results)), before, limits)
    if junit:
        _write(junit, comparison)
    _show(comparison)
    for sentence in dict.fromkeys([*comparison.notes, *problems]):
        say(f"note: {sentence}")
    say(answer(comparison, allow_undecided))
    raise typer.Exit(comparison.exit_code(allow_undecided))


def _compared(now: Store, before: Store, limits: GateLimits) -> tuple[RunComparison, list[str]]:
    name, other = now.plan.run, before.plan.run
    if name == other:
        raise GridbenchError(f"run {name} can't be compared with itself; name two runs")
    (side, problems), (other_side, more) = _side(now), _side(before)
    comparison = compare_cells(side, other_side, set(now.plan.cells), limits)
    if not comparison.cells:
        raise GridbenchError(f"runs {name} and {other} have no cell that could be compared")
    return comparison, [f"left out: {text}" for text in (*problems, *more)]


def _newest(results: ResultsAddress) -> str:
    if not results.block:
        return next(iter(runs(results.folder)))
    try:
        stored = run_files_of(Bucket.load(results.block).storage)
        newest_first = sorted(stored.runs(), reverse=True)
        return next(run for run in newest_first if stored.read(f"{run}/{PLAN}") is not None)
    except GridbenchError:
        raise
    except Exception as error:  # storages raise any error of their libraries
        raise GridbenchError(f"results: {results} can't be read: {one_line(error)}") from None


def _side(store: Store) -> tuple[ComparedRun, list[str]]:
    plan, (records, problems) = store.plan, store.records()
    if not records:
        raise GridbenchError(f"run {plan.run} has no record that can be read; `gridbench resume {plan.run}`")
    return ComparedRun(plan.run, tuple(records), tuple(plan.machines), plan.baseline), problems


def _write(path: Path, comparison: RunComparison) -> None:
    from tasks.report.files.junit import junit_xml

    try:
        write_text(path, junit_xml(comparison))
    except WorkloadsError as error:
        raise GridbenchError(f"junit: {error}") from None


def _show(comparison: RunComparison) -> None:
    title = f"{comparison.now.name} against {comparison.before.name}"
    columns = ("cell", "status", "before", "now", "change", "slower by up to")
    table = table_of(escape(title), *columns, right=columns[2:])
    for cell in comparison.cells:
        change, style = cell.change, STYLES.get(cell.status, "")
        beside = " *" if change and change.paired else ""
        table.add_row(
            escape(cell.cell.id),
            f"[{style}]{status_text(cell)}[/]" if style else status_text(cell),
            number_text(cell.cell.case.id, cell.before_s.value if cell.before_s else None),
            number_text(cell.cell.case.id, cell.now_s.value if cell.now_s else None),
            f"{change_of(cell)}{beside}",
            most_of(cell),
        )
    log_or_screen().print(table)
    if any(cell.change and cell.change.paired for cell in comparison.cells):
        say("* of its time divided by the time of its control, which ran next to it on the same box")
    for cell in comparison.cells:
        if cell.why:
            say(f"{cell.cell.id}: {status_text(cell)}, {numbers_text(cell)}")
