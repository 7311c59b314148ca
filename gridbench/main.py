"""gridbench: measure, resume, look at results, and say what this machine lacks."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.catalog import hardware_names, suites
from tasks.errors import GridbenchError
from tasks.plan import Plan, check_budget, make_plan
from tasks.store import DEFAULT, Store, runs

app = typer.Typer(
    help="Which machine should run this torch workload, at what speed and at what price?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console()
Results = Annotated[Path, typer.Option(help="Folder of the results store")]
Budget = Annotated[
    float, typer.Option(help="USD: refuse to start above it by the estimate, stop once it is spent")
]
RunName = Annotated[str, typer.Argument(help="Name of a run, or its beginning")]


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help=f"Which cases: {', '.join(suites())}")] = "quick",
    on: Annotated[
        list[str] | None,
        typer.Option(help=f"Hardware, several times for several: {', '.join(hardware_names())}"),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="What speedups are taken against; the first by default")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Fresh processes per cell; the suite's by default")
    ] = None,
    budget_usd: Budget = 5.0,
    results: Results = DEFAULT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop")] = False,
) -> None:
    """Measure a suite and print the answer."""
    hardware = on or local_hardware()
    if suite.endswith(".toml"):  # the flow's form offers the names, and the server refuses anything else
        raise GridbenchError(
            f"suite {suite!r} is a path; put the file into deployments/suites and say its name"
        )
    plan = make_plan(suite, hardware, baseline, repeats, budget_usd)
    show_plan(plan)
    if not dry_run:
        parameters = {
            "suite": suite,
            "hardware": hardware,
            "baseline": baseline,
            "repeats": repeats,
            "budget_usd": budget_usd,
            "results": str(results.absolute()),
        }
        _run(parameters, results)


@app.command()
def resume(name: RunName, budget_usd: Budget = 5.0, results: Results = DEFAULT) -> None:
    """Measure what an interrupted run still lacks, and nothing twice."""
    plan = Store.open(results, name).plan
    check_budget(plan, budget_usd)
    _run({"resume": plan.run, "budget_usd": budget_usd, "results": str(results.absolute())}, results)


@app.command()
def report(name: RunName, results: Results = DEFAULT) -> None:
    """Write a run's report anew from its records."""
    from gridbench.outcome import rebuild

    console.print(rebuild(Store.open(results, name)), soft_wrap=True)


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(help="Name of a run; without it the runs are listed")] = None,
    results: Results = DEFAULT,
) -> None:
    """Show the records of a run, or list the runs."""
    from workloads.harness.words import HEAD, line, table

    if name is None:
        console.print("\n".join(runs(results)) or f"no runs in {results}", soft_wrap=True)
        return
    records, odd = Store.open(results, name).records()
    print(table([HEAD, *map(line, records)]))
    for sentence in odd:
        console.print(f"error: {sentence}", soft_wrap=True, markup=False)
    if odd:
        raise typer.Exit(1)


@app.command()
def up(
    port: Annotated[int | None, typer.Option(help="Port of the UI; a free one by default")] = None,
    results: Results = DEFAULT,
) -> None:
    """Keep a Prefect server and a worker running, with their schedules, until Ctrl-C."""
    from gridbench.session import session

    with session(console.print, results, port, schedules=True) as api:
        console.print(f"UI: {api.ui_url}\nPREFECT_API_URL={api.api_url}\nCtrl-C stops it.", soft_wrap=True)
        while True:
            time.sleep(5)
            if sentence := api.check():
                console.print(sentence, markup=False)


@app.command()
def doctor(results: Results = DEFAULT) -> None:
    """Say what is missing here and what to do about it."""
    from gridbench.doctor import examine

    found = list(examine(results))
    for well, text in found:
        console.print(
            f"[green]ok[/]    {escape(text)}" if well else f"[red]mend[/]  {escape(text)}", soft_wrap=True
        )
    raise typer.Exit(0 if all(well for well, _ in found) else 1)


def local_hardware() -> list[str]:
    """This machine's hardware, baseline first: every core where there is a GPU to compare, or one thread."""
    from gridbench.doctor import torch_sees_cuda

    return ["local-cpu", "local-cpu-1", "local-cuda"] if torch_sees_cuda() else ["local-cpu-1", "local-cpu"]


def show_plan(plan: Plan) -> None:
    """Print what will be measured, where, and what it will take."""
    table = Table(title=plan.title, title_justify="left")
    for column in ("hardware", "what", "cells", "repeats", "USD per hour", "price"):
        table.add_column(column)
    for machine in plan.hardware:
        price = machine.price
        size = (str(len(plan.cases)), str(plan.repeats), f"{price.usd_per_hour:g}", price.purchase)
        table.add_row(machine.name, machine.title, *size)
    console.print(table)
    console.print(
        f"{len(plan.cells)} cells, {plan.repeats} repeats each: about {max(plan.estimate_s / 60, 1):.0f} min "
        f"and {plan.estimate_usd:.2g} USD at these prices; baseline {plan.baseline}"
    )


def _run(parameters: dict[str, Any], results: Path) -> None:
    """Have `bench` run with these parameters, print the answer; exits with 1 if a cell was not measured."""
    from gridbench.follow import follow
    from gridbench.outcome import tell
    from gridbench.session import session

    suite = parameters.get("suite")
    deployment = f"bench/{suite}" if suite in ("quick", "full") else "bench/quick"
    with session(console.print, results) as api:
        console.print(f"UI: {api.ui_url}", soft_wrap=True)
        flow_run = asyncio.run(follow(parameters, deployment, console, api.check))
        well = tell(flow_run, results, api.ui_url, console)
    raise typer.Exit(0 if well else 1)


def main() -> None:
    """The program's entry: a mistake of the user's is one sentence, never a traceback."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        app()
    except GridbenchError as error:
        Console(stderr=True).print(f"error: {error}", soft_wrap=True, highlight=False, markup=False)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
