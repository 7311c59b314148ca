"""The commands `run` and `resume`."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gridbench.run.box import BOX, with_boxes
from gridbench.run.reach import check_code_reach, check_reach, suite_for_flow
from gridbench.terminal import Results, RunName, console, say, share_of
from tasks.dispatch.rental_order import order_for
from tasks.errors import GridbenchError
from tasks.findings.answer import price_notes
from tasks.imported import SUITE as IMPORTED
from tasks.planning.as_written import check_machines
from tasks.planning.cluster import Cluster, load_cluster
from tasks.planning.hardware import hardware_names, suites
from tasks.planning.limits import LOCAL_POOL
from tasks.planning.plan import FURTHER, Plan, skip_lines
from tasks.planning.planner import check_budget, make_plan
from tasks.planning.request import RunRequest
from tasks.prediction.kept import machine_texts
from tasks.prediction.outlook import planned_forecasts
from tasks.results.format import format_count
from tasks.results.sessions import ENOUGH, SESSION_EFFECT
from tasks.store.address import DEFAULT, ResultsAddress
from tasks.store.bucket import find
from tasks.store.store import Store
from workloads.harness.records.record import WORTH_RETRY

Budget = Annotated[
    float,
    typer.Option(
        help="Budget in USD: a run does not start if its estimate is higher, and stops when it is spent"
    ),
]
Hardware = Annotated[
    list[str] | None,
    typer.Option(help=f"Hardware; repeat the option for several: {', '.join(hardware_names())}; or {BOX}"),
]
Baseline = Annotated[
    str | None, typer.Option(help="Machine that speedups are relative to; the first by default")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print the plan")]
ClusterFile = Annotated[
    Path | None, typer.Option(help="File that names several boxes of one kind, instead of --on")
]
AssumedEffect = Annotated[
    str | None,
    typer.Option(
        help="Assumed standard deviation of a machine's times between its sessions, until "
        f"{ENOUGH} earlier runs of it show another one: 2% or 0.02",
        show_default=f"{100 * SESSION_EFFECT:g}%",
    ),
]
Boxes = Annotated[int, typer.Option(help="Copies to rent of each rented machine")]
TrustPlan = Annotated[
    bool,
    typer.Option("--trust-plan", help="Run the commands of the plan even if deployments/hardware has others"),
]


def run(
    suite: Annotated[
        str, typer.Argument(help=f"Cases to measure: {', '.join(suites())}, or the path of a suite file")
    ] = "quick",
    on: Hardware = None,
    baseline: Baseline = None,
    repeats: Annotated[
        int | None, typer.Option(help="Repeats of each cell; by default the number in the suite")
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            help="Sessions of each machine, over which its repeats are spread: other boxes if it is rented, else other "
            "turns of its box; by default the number in the suite, or 1"
        ),
    ] = None,
    budget_usd: Budget = 5.0,
    results: Results = DEFAULT,
    cluster: ClusterFile = None,
    boxes: Boxes = 1,
    break_even: Annotated[
        bool, typer.Option("--break-even", help="Measure further sizes until each break-even is known")
    ] = False,
    session_effect: AssumedEffect = None,
    dry_run: DryRun = False,
) -> None:
    """Measure a suite and print the answer.

    Exit codes:

    0: every cell was measured, and (acceptance only) the advice is to keep every machine

    1: some cells were not measured, or no repeat counts

    2: an argument is wrong

    3: acceptance only: it is undecided whether to keep a machine

    4: acceptance only: the advice is to return a machine
    """
    request = RunRequest(
        suite=suite_for_flow(suite),
        hardware=() if cluster else tuple(on or local_hardware()),
        baseline=baseline,
        repeats=repeats,
        sessions=sessions,
        budget_usd=budget_usd,
        results=results.parameter,
        break_even=break_even,
        session_effect=None if session_effect is None else share_of("session_effect", session_effect),
        cluster=_cluster(cluster, on),
        boxes=boxes,
    )
    plan_and_measure(request, results, dry_run)


def plan_and_measure(request: RunRequest, results: ResultsAddress, dry_run: bool) -> None:
    request = with_boxes(request)
    measure_plan(make_plan(request), request, results, dry_run)


def measure_plan(plan: Plan, request: RunRequest, results: ResultsAddress, dry_run: bool) -> None:
    show_plan(plan, machine_texts(planned_forecasts(plan, results.folder), plan))
    lacking = without_gpu(plan)
    if lacking and dry_run:
        say(lacking)
    elif lacking:
        raise GridbenchError(lacking)
    check_budget(plan, request.budget_usd)  # after the plan, which shows the costs
    say_worst_cases(plan, request.budget_usd)
    check_code_reach(plan, results)
    if not dry_run:
        check_reach(plan.hardware)
        _run(request.model_copy(update={"plan": plan}), results, plan)


def _cluster(path: Path | None, on: list[str] | None) -> Cluster | None:
    if on and path:
        raise GridbenchError("give --on or --cluster, not both: a cluster file names its own hardware")
    return load_cluster(path) if path else None


def resume(
    name: RunName, budget_usd: Budget = 5.0, results: Results = DEFAULT, trust_plan: TrustPlan = False
) -> None:
    """Finish an interrupted run, keeping its measured repeats."""
    store = find(results, name)
    plan = store.plan
    if plan.suite == IMPORTED:
        raise GridbenchError(f"run {plan.run} was imported: its machines cannot be measured from here")
    if not trust_plan:
        check_machines(plan)
    say(kept_text(store))
    check_budget(plan, budget_usd)
    say_worst_cases(plan, budget_usd)
    check_reach(plan.hardware)
    request = RunRequest(resume=plan.run, budget_usd=budget_usd, results=results.parameter, plan=plan)
    _run(request, results, plan)


def kept_text(store: Store) -> str:
    plan = store.plan
    skipped = {(skip.hardware, skip.case.case) for skip in plan.skips}
    measured = [r for r in store.records()[0] if r.verdict not in WORTH_RETRY]
    cells = [cell for cell in plan.cells_begun(measured) if (cell.hardware, cell.case) not in skipped]
    kept = Counter(record.cell for record in measured)
    repeats = sum(kept[cell] for cell in cells)
    complete = sum(kept[cell] >= plan.repeats for cell in cells)
    total = format_count(len(cells) * plan.repeats, "repeat")
    left = len(cells) * plan.repeats - repeats
    done = {(record.cell, record.repeat) for record in measured}
    numbers = range(1, plan.repeats + 1)
    lacking = {plan.session_of(n) for cell in cells for n in numbers if (cell, n) not in done}
    names = [f"session {number}" for number in sorted(number for number in lacking if number)]
    sessions = f" They are of {' and '.join(names)}." if names else ""
    return (
        f"Run {plan.run}: {repeats} of {total} are measured and kept ({complete} of {format_count(len(cells), 'cell')} "
        f"complete); {left or 'none'} left to measure.{sessions}"
    )


def local_hardware() -> list[str]:
    """Return this machine's hardware, baseline first: all cores if it has a GPU, else one thread."""
    from workloads.harness.probes.device_here import device_here

    return (
        ["local-cpu", "local-cpu-1", "local-cuda"]
        if device_here() == "cuda"
        else ["local-cpu-1", "local-cpu"]
    )


def without_gpu(plan: Plan) -> str:
    """Return a sentence if the plan needs a GPU that this machine lacks, or "".

    With PREFECT_API_URL set, the lanes of this machine's pool can run elsewhere. `WorkloadsError` if the
    driver hangs, or has GPUs that torch can't use.
    """
    from workloads.harness.probes.device_here import device_here

    names = [m.name for m in plan.hardware if m.pool == LOCAL_POOL and m.device == "cuda"]
    if not names or os.environ.get("PREFECT_API_URL") or device_here() == "cuda":
        return ""
    return (
        f"{', '.join(names)} can't be measured: torch finds no GPU on this machine; leave it out, or choose hardware "
        "elsewhere with --on"
    )


def show_plan(plan: Plan, predicted: Mapping[str, str]) -> None:
    table = Table(title=plan.title, title_justify="left")
    table.add_column("hardware", no_wrap=True)  # in full, because other commands take it
    columns = ("predicted, with 90 % intervals",) if predicted else ()
    for column in ("what", "cells", "repeats", "USD per hour", "price", *columns):
        table.add_column(column)
    for machine in plan.hardware:
        price, skipped = machine.price, len(plan.skipped_on(machine.name))
        cells = f"{len(plan.cases)}, {skipped} skipped" if skipped else str(len(plan.cases))
        size = (cells, str(plan.repeats), f"{price.usd_per_hour:g}", price.purchase)
        prediction = (predicted.get(machine.name, "–"),) if predicted else ()
        table.add_row(machine.name, machine.title, *size, *prediction)
    console.print(table)
    cells, repeats = (
        format_count(len(plan.cells) - len(plan.skips), "cell"),
        format_count(plan.repeats, "repeat"),
    )
    if plan.sessions > 1:
        repeats += f" in {plan.sessions} sessions"
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
    for machine in plan.hardware[:1] if plan.shortlist else plan.hardware:
        if machine.rent:
            order = order_for(machine, machine.rent, plan.run, budget_usd)
            times = f" once for each of {plan.sessions} sessions, each time" if plan.sessions > 1 else ","
            say(f"{machine.name} will be rented{times} for {order.worst_case}")


def _run(request: RunRequest, results: ResultsAddress, plan: Plan) -> None:
    from gridbench.run.follow import follow
    from gridbench.run.outcome import tell, went_to_its_end
    from gridbench.run.remote import open_session
    from tasks.findings.confirmation import EXIT_CODES, Confirmed

    deployment = "bench/full" if request.suite == "full" else "bench/quick"
    with open_session(plan.hardware, results.folder, say) as api:
        console.print(api.ui_text, soft_wrap=True, highlight=False, markup=False)
        flow_run = asyncio.run(follow(request, deployment, console, api.check, plan.estimate_s, plan.repeats))
        exit_code = tell(flow_run, results.folder, api.ui_url if api.lasts else None, console)
        if plan.confirms and not went_to_its_end(flow_run):
            exit_code = EXIT_CODES[Confirmed.OPEN]
    raise typer.Exit(exit_code)
