"""A run's cases predicted on unmeasured machines."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan
from tasks.prediction.evidence import Evidence, evidence_in, evidence_of
from tasks.prediction.kept import forecasts, keep, kept_in, scored
from tasks.prediction.step import Prediction, predict
from tasks.results.billing import usd
from tasks.results.forecast import Forecast, widening
from tasks.results.shortlist import measured_s, sentence, standings
from tasks.results.values import Estimate
from tasks.store.address import ResultsAddress
from tasks.store.bucket import find
from tasks.store.store import Store, runs
from workloads.harness.records.case import Case

MOST_RELEVANT = 20  # more runs would delay a plan's start


def outlook(store: Store, targets: Sequence[Hardware]) -> list[Prediction]:
    """Predict each case on each target, the fastest first; keep the predictions.

    Raises:
        GridbenchError: unreadable, or no valid record.
    """
    plan = store.plan
    own = evidence_in(plan.hardware, store.records()[0])
    if not own.cells:
        raise GridbenchError(f"run {plan.run} has no valid record to predict from")
    evidence = evidence_of(store.folder.parent, [*plan.hardware, *targets])
    factor = widening(scored(store.folder.parent))
    cases = dict.fromkeys(cell.cell.case for _, cell in own.cells)
    rows = [row for case in cases for row in sorted(_rows(case.id, own, evidence, targets), key=order)]
    keep(store, forecasts(rows, targets, factor))
    return [row.widened(factor) for row in rows]


def planned_forecasts(plan: Plan, results: Path) -> list[Forecast]:
    """Predict from the latest runs of its cases on other machines."""
    try:
        evidence = evidence_of(results, plan.hardware, plan.cases, MOST_RELEVANT)
        cases = {planned.case.id for planned in plan.cases}
        rows = [row for case in sorted(cases) for row in _rows(case, evidence, evidence, plan.hardware)]
        return (
            forecasts(rows, plan.hardware, widening(scored(results))) if any(r.step_s for r in rows) else []
        )
    except GridbenchError:  # a plan does not need them
        return []


def _rows(case: str, own: Evidence, evidence: Evidence, targets: Sequence[Hardware]) -> Iterator[Prediction]:
    sources = [(machine, cell) for machine, cell in own.cells if cell.cell.case.id == case]
    measured = {machine.name for machine, _ in sources}
    for target in targets:
        if target.name not in measured:
            candidates = [predict(cell, machine, target, evidence) for machine, cell in sources]
            yield from sorted(candidates, key=lambda row: row.width)[:1]


def order(row: Prediction) -> float:
    """Return the sort key: the fastest first."""
    return row.step_s.value if row.step_s else float("inf")


def cost_usd(row: Prediction, target: Hardware, steps: int) -> Estimate | None:
    """Return the predicted cost."""
    if row.step_s is None:
        return None
    price = target.price.usd_per_hour
    low, value, high = (
        usd(steps * (t or 0.0), price) for t in (row.step_s.low, row.step_s.value, row.step_s.high)
    )
    return Estimate(value, low, high)


def run_of(name: str, results: ResultsAddress) -> Store:
    """Return a run by name, or the newest of this script.

    Raises:
        GridbenchError: there is none.
    """
    if not name.endswith(".py"):
        return find(results, name)
    script = Path(name).expanduser().absolute()
    for run in runs(results.folder) if results.folder.is_dir() else ():
        store = Store(results.folder / run)
        try:
            cases = store.plan.cases
        except GridbenchError:  # a damaged run measured nothing
            continue
        for case in cases:
            if case.script and script in {Path(case.script.folder) / word for word in case.script.command}:
                return store
    raise GridbenchError(
        f"no run in {results} has measured {name}; measure it on any machine first: gridbench train -- {name}"
    )


def advice(store: Store, case: Case) -> Iterator[str]:
    """Yield the next machine to find the fastest and the cheapest, or that the answer stands."""
    plan = store.plan
    own = evidence_in(plan.hardware, [r for r in store.records()[0] if r.case == case])
    usd_per_hour = {machine.name: machine.price.usd_per_hour for machine in plan.hardware}
    for standing in standings(measured_s(cell for _, cell in own.cells), usd_per_hour, kept_in(store.folder)):
        yield sentence(standing)
