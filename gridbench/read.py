"""Look at stored runs: the commands `show` and `report`."""

from typing import Annotated

import typer

from gridbench.terminal import Results, RunName, console
from tasks.errors import GridbenchError
from tasks.store.address import DEFAULT
from tasks.store.bucket import find
from tasks.store.store import runs


def report(
    name: RunName,
    results: Results = DEFAULT,
    at: Annotated[
        str, typer.Option("--prices", help="plan: the prices in its plan; now: today's prices")
    ] = "plan",
) -> None:
    """Write the report of a run again from its records."""
    from gridbench.run.outcome import rebuild

    console.print(rebuild(find(results, name), at), soft_wrap=True)


def show(
    name: Annotated[
        str | None, typer.Argument(help="Name of a run or its beginning; by default all runs are listed")
    ] = None,
    results: Results = DEFAULT,
) -> None:
    """List the runs, or show the records of one."""
    from workloads.harness.records.text import HEAD, line, table

    if name is None:
        if not results.folder.is_dir():
            raise GridbenchError(
                f"the results folder {results.folder} does not exist; `gridbench run quick` makes one, "
                "and --results names another"
            )
        console.print(
            "\n".join(runs(results.folder)) or f"no runs in {results}, which has no folder with a plan.json",
            soft_wrap=True,
        )
        return
    records, problems = find(results, name).records()
    print(table([HEAD, *map(line, records)]))
    for sentence in problems:
        console.print(f"error: {sentence}", soft_wrap=True, markup=False)
    if problems:
        raise typer.Exit(1)
