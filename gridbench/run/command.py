"""Measure a suite, or finish an interrupted run: the commands `run` and `resume`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gridbench.run.box import BOX, with_boxes
from gridbench.run.reach import check_code_reach, check_reach, for_flow, suite_for_flow
from gridbench.terminal import Results, RunName, console, say
from tasks.dispatch.rental_order import order_for
from tasks.errors import GridbenchError
from tasks.findings.answer import price_notes
from tasks.planning.cluster import Cluster, load_cluster
from tasks.planning.hardware import hardware_names, suites
from tasks.planning.plan import FURTHER, Plan, skip_lines
from tasks.planning.planner import check_budget, make_plan
from tasks.planning.request import RunRequest
from tasks.store.bucket import find, folder_of
from tasks.store.store import DEFAULT

Budget = Annotated[
    float, typer.Option(help="USD: refuse to start above it by the estimate, stop once it is spent")
]
ClusterFile = Annotated[
    Path | None, typer.Option(help="Instead of --on: a file that names several boxes of one kind")
]
Boxes = Annotated[int, typer.Option(help="How many to rent of each machine that is rented")]


def run(
    suite: Annotated[
        str, typer.Argument(help=f"Which cases: {', '.join(suites())}, or the path of a suite's file")
    ] = "quick",
    on: Annotated[
        list[str] | None,
        typer.Option(help=f"Hardware, several times for several: {', '.join(hardware_names())}; or {BOX}"),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="What speedups are taken against; the first by default")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Fresh processes per cell; the suite's by default")
    ] = None,
    budget_usd: Budget = 5.0,
    results: Results = DEFAULT,
    cluster: ClusterFile = None,
    boxes: Boxes = 1,
    break_even: Annotated[
        bool, typer.Option("--break-even", help="Then measure more sizes, until each break-even is known")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop")] = False,
) -> None:
    """Measure a suite and print the answer.

    Exit codes:

    0: every cell was measured; for an acceptance, the advice is to keep every machine

    1: some cells were not measured

    2: an argument is wrong

    3: whether to keep a machine is undecided (acceptance)

    4: the advice is to return a machine (acceptance)
    """
    request = RunRequest(
        suite=suite_for_flow(suite),
        hardware=() if cluster else tuple(on or local_hardware()),
        baseline=baseline,
        repeats=repeats,
        budget_usd=budget_usd,
        results=for_flow(results),
        break_even=break_even,
        cluster=_cluster(cluster, on),
        boxes=boxes,
    )
    plan_and_measure(request, results, dry_run)


def plan_and_measure(request: RunRequest, results: Path, dry_run: bool) -> None:
    """Print the plan of a request, have it measured unless it is a `dry_run`, and print the answer.

    Exits with the code that `tell` returns.
    """
    request = with_boxes(request)
    plan = make_plan(request.model_copy(update={"budget_usd": None}))
    show_plan(plan)
    check_budget(plan, request.budget_usd)  # after the plan, which shows where the money goes
    say_worst_cases(plan, request.budget_usd)
    check_code_reach(plan, request.results)
    if not dry_run:
        check_reach(plan.hardware)
        _run(request.pinned(plan), results, plan)


def _cluster(path: Path | None, on: list[str] | None) -> Cluster | None:
    if on and path:
        raise GridbenchError(
            "--on and --cluster exclude each other: a cluster file names its hardware itself"
        )
    return load_cluster(path) if path else None


def resume(name: RunName, budget_usd: Budget = 5.0, results: Results = DEFAULT) -> None:
    """Finish an interrupted run; measured repeats are kept."""
    plan = find(results, name).plan
    check_budget(plan, budget_usd)
    say_worst_cases(plan, budget_usd)
    check_reach(plan.hardware)
    request = RunRequest(resume=plan.run, budget_usd=budget_usd, results=for_flow(results))
    _run(request, results, plan)


def local_hardware() -> list[str]:
    """This machine's hardware, baseline first: every core where there is a GPU to compare, or one thread."""
    from gridbench.doctor import torch_sees_cuda

    return ["local-cpu", "local-cpu-1", "local-cuda"] if torch_sees_cuda() else ["local-cpu-1", "local-cpu"]


def show_plan(plan: Plan) -> None:
    """Print what will be measured, where, and what it will take."""
    table = Table(title=plan.title, title_justify="left")
    table.add_column("hardware", no_wrap=True)  # whole: it is what other commands take
    for column in ("what", "cells", "repeats", "USD per hour", "price"):
        table.add_column(column)
    for machine in plan.hardware:
        price, skipped = machine.price, len(plan.skipped_on(machine.name))
        cells = f"{len(plan.cases)}, {skipped} skipped" if skipped else str(len(plan.cases))
        size = (cells, str(plan.repeats), f"{price.usd_per_hour:g}", price.purchase)
        table.add_row(machine.name, machine.title, *size)
    console.print(table)
    cells = "1 cell" if len(plan.cells) == 1 else f"{len(plan.cells)} cells"
    repeats = "1 repeat" if plan.repeats == 1 else f"{plan.repeats} repeats"
    console.print(
        f"{cells}, {repeats} each: about {max(plan.estimate_s / 60, 1):.0f} min "
        f"and {plan.estimate_usd:.2g} USD at these prices; baseline {plan.baseline}"
    )
    prices = [caveat.reason for caveat in price_notes(plan.machines)]
    for sentence in [*plan.notes, *([FURTHER] if plan.break_even else []), *prices]:
        say(sentence)
    for line in skip_lines(plan):
        say(line)


def say_worst_cases(plan: Plan, budget_usd: float | None) -> None:
    """Print what each machine that is rented may cost at most, before it is."""
    for machine in plan.hardware:
        if machine.rent:
            order = order_for(machine, machine.rent, plan.run, budget_usd)
            say(f"{machine.name} is rented, for {order.worst_case}")


def _run(request: RunRequest, results: Path, plan: Plan) -> None:
    """Have `bench` measure a request and print the answer; exit with the code of `tell`."""
    from gridbench.run.follow import follow
    from gridbench.run.outcome import tell
    from gridbench.run.remote import open_session

    deployment = "bench/full" if request.suite == "full" else "bench/quick"
    folder = folder_of(results)
    with open_session(plan.hardware, folder, say) as api:
        console.print(api.ui_text, soft_wrap=True, highlight=False, markup=False)
        flow_run = asyncio.run(follow(request, deployment, console, api.check, plan.estimate_s))
        exit_code = tell(flow_run, folder, api.ui_url, console)
    raise typer.Exit(exit_code)
