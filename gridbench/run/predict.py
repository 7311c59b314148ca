"""The command `predict`."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gridbench.run.box import with_boxes
from gridbench.terminal import Results, log_or_screen, say, table_of
from tasks.errors import GridbenchError
from tasks.planning.hardware import (
    DEPLOYMENTS,
    Hardware,
    hardware_names,
    load_hardware,
    load_suite_checked,
    suites,
)
from tasks.planning.limits import LOCAL_POOL
from tasks.planning.machines import machines_of
from tasks.planning.plan import PlannedCase
from tasks.planning.rentable import rentable
from tasks.planning.request import RunRequest
from tasks.prediction.evidence import evidence_of
from tasks.prediction.kept import scored
from tasks.prediction.offered import offered
from tasks.prediction.outlook import advice, cost_usd, order, outlook, run_of
from tasks.prediction.step import Prediction
from tasks.prediction.unmeasured import predict_unmeasured
from tasks.results.forecast import STEPS, Scored, held, typical_error, widening
from tasks.results.format import format_ratio, format_seconds, format_share, format_usd, listed
from tasks.results.values import Estimate
from tasks.store.address import DEFAULT, ResultsAddress
from tasks.store.store import Store
from workloads.harness.records.case import Case
from workloads.harness.records.script import OWN, Script


def predict(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Name of a run or its beginning; a script or a suite, also without a record",
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(help="Hardware to predict; repeat for several; by default all that can be rented"),
    ] = None,
    offers: Annotated[
        bool,
        typer.Option("--offers", help="Predict the cheapest offer of each card with as many GPUs"),
    ] = False,
    score: Annotated[
        bool,
        typer.Option(
            "--score", help="Show how often earlier predictions held the time that was measured later"
        ),
    ] = False,
    results: Results = DEFAULT,
) -> None:
    """Predict time and cost on machines that have not measured a run's cases.

    Each number has a 90 % interval. If the bound of a step is unknown, nothing is predicted.
    """
    if score:
        _print_score(scored(results.folder))
        return
    if name is None:
        raise GridbenchError(
            "predict needs the name of a run or a script, or --score; `gridbench show` lists the runs"
        )
    store, cases = _source(name, results)
    machines = list(store.plan.hardware) if store else []
    targets = _targets(machines, on, offers)
    if store:
        rows = outlook(store, targets)
    else:
        say(f"{name}: no record, so these are predictions of what fake tensors do in a step.")
        rows = predict_unmeasured(cases, targets, evidence_of(results.folder, targets))
    by_name = {machine.name: machine for machine in (*machines, *targets)}
    for case in dict.fromkeys(row.case for row in rows):
        of_case = sorted((row for row in rows if row.case == case and not row.refused), key=order)
        _print(of_case, by_name)
        for sentence in advice(store, case) if store else ():
            say(sentence)
    refused: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.refused:
            refused.setdefault((row.case.id, row.refused), []).append(row.target)
    for (case_id, why), names in refused.items():
        say(f"{case_id}: no prediction for {listed(names)}: {why}")


def _targets(machines: Sequence[Hardware], on: list[str] | None, offers: bool) -> list[Hardware]:
    if offers:
        gpus = min((machine.gpus for machine in machines), default=1)
        return offered(rentable(DEPLOYMENTS, datetime.now(UTC).date()), gpus)
    if on:
        return machines_of(with_boxes(RunRequest(hardware=tuple(on))))
    devices = {machine.device for machine in machines} or {"cuda"}
    return [machine for machine in map(load_hardware, hardware_names()) if _is_offered(machine, devices)]


def _source(name: str, results: ResultsAddress) -> tuple[Store | None, Sequence[PlannedCase]]:
    """Return the run to predict from; for an unmeasured script or suite, its cases."""
    try:
        return run_of(name, results), ()
    except GridbenchError:
        if name.endswith(".py") and (path := Path(name).expanduser().absolute()).is_file():
            script = Script((path.name,), folder=str(path.parent))
            return None, (PlannedCase.of(Case.of(path.stem, {}, OWN), None, None, script),)
        if name in suites() or name.endswith(".toml"):
            entries = load_suite_checked(name).on({"cuda"}).entries
            return None, [PlannedCase.of(e.case, e.threads, e.soak_s, e.script) for e in entries]
        raise


def _print_score(pairs: Scored) -> None:
    if not pairs:
        say("no prediction has been measured since it was made")
        return
    table = table_of(
        "Predictions that were measured later", "card", "bound", "number", "within 90 %", "middle error"
    )
    kinds = sorted({(forecast.card, forecast.bound) for forecast, _ in pairs})
    rows = [(kind, [pair for pair in pairs if (pair[0].card, pair[0].bound) == kind]) for kind in kinds]
    for (card, bound), some in [*rows, (("all", ""), [*pairs])]:
        shares = (format_share(held(some)), format_share(typical_error(some)))
        table.add_row(*map(escape, (card, bound, str(len(some)), *shares)))
    log_or_screen().print(table)
    factor = widening(pairs)
    say(
        f"next intervals are {factor:.2g} times as wide"
        if factor > 1
        else "next intervals are as wide as before"
    )


def _is_offered(machine: Hardware, devices: Collection[str]) -> bool:
    return machine.device in devices and machine.pool != LOCAL_POOL and not machine.unsupported


def _print(rows: Sequence[Prediction], machines: dict[str, Hardware]) -> None:
    if not rows:
        return
    sources = listed(dict.fromkeys(row.source for row in rows))
    table = table_of(
        f"{escape(rows[0].case.id)}: predicted from {escape(sources)}, with 90 % intervals",
        "hardware",
        "time per step",
        "as fast",
        f"USD per {STEPS:,} steps",
        "bound there",
        "rests on",
        right=("time per step", "as fast", f"USD per {STEPS:,} steps"),
    )
    for row in rows:
        cost = cost_usd(row, machines[row.target], STEPS)
        texts = (format_seconds(row.step_s), format_ratio(_speed(row)), format_usd(cost), row.bound)
        table.add_row(*map(escape, (row.target, *texts, "; ".join(row.rests_on))))
    log_or_screen().print(table)


def _speed(row: Prediction) -> Estimate | None:
    if row.step_s is None or row.measured_s is None or not row.step_s.low or not row.step_s.high:
        return None
    measured_s = row.measured_s
    return row.step_s.mapped(lambda step_s: measured_s / step_s)
