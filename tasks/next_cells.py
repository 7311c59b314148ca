"""The next cells of a run, or of a shortlist by machine."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from tasks.dispatch.break_even import further_cells, measuring_usd
from tasks.dispatch.dispatcher import Dispatcher
from tasks.dispatch.rental_order import buys_a_box
from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS, Hardware
from tasks.planning.limits import LOCAL_POOL
from tasks.planning.plan import Plan
from tasks.planning.rentable import rentable
from tasks.prediction.evidence import evidence_in
from tasks.prediction.kept import kept_in
from tasks.prediction.offered import offered
from tasks.prediction.outlook import outlook
from tasks.results.shortlist import MOST_RENTED, BestSoFar, measured_s, next_for_all, next_text, standings
from workloads.harness.records.case import Cell
from workloads.harness.records.record import WORTH_RETRY, Record, Verdict


def first_cells(plan: Plan) -> list[Cell]:
    """Return all, or those of a shortlist's first machine."""
    return _cells_on(plan, plan.hardware[0]) if plan.shortlist else plan.cells


async def next_cells(lanes: Dispatcher) -> list[Cell]:
    """Return none at the end."""
    if not lanes.plan.shortlist:
        return further_cells(lanes)
    machine = None if lanes.failed else await asyncio.to_thread(_next_machine, lanes)
    return _cells_on(lanes.plan, machine) if machine else []


def _cells_on(plan: Plan, machine: Hardware) -> list[Cell]:
    return [cell for cell in plan.cells if cell.hardware == machine.name]


def _next_machine(lanes: Dispatcher) -> Hardware | None:
    """Return None if the answer stands, or money or number is spent.

    A machine begun by an interrupted run comes first. Others are chosen by predictions; those without one can
    be the best, and follow, the cheapest first.
    """
    plan = lanes.plan
    records = [record for record in lanes.arrived.values() if record.verdict is not Verdict.SKIPPED]
    counts = Counter(record.hardware for record in records)
    planned = {m.name: (len(plan.cases) - len(plan.skipped_on(m.name))) * plan.repeats for m in plan.hardware}
    begun = [m for m in plan.hardware if 0 < counts[m.name] < planned[m.name]]
    others = [machine for machine in plan.hardware if planned[machine.name] and not counts[machine.name]]
    rented = {r.hardware for r in records if r.verdict not in WORTH_RETRY} & {
        m.name for m in plan.hardware if m.pool != LOCAL_POOL
    }
    if begun or not others:
        return begun[0] if begun else None
    found, impossible = _outlook(lanes, records, others)
    cost_usd = {m.name: measuring_usd(plan, records, m, [p.case for p in plan.cases]) for m in others}
    affordable = {m.name: m for m in others if _is_affordable(lanes, m, cost_usd[m.name])}
    predicted = {name for standing in found for name in standing.candidates}
    choice = next_for_all(found, affordable)
    unknown = [m for m in affordable.values() if m.name not in predicted | impossible]
    cheapest = min(unknown, key=lambda machine: machine.price.usd_per_hour, default=None)
    chosen = affordable[choice[1]] if choice else cheapest
    if chosen is None:
        too_dear = len(others) - len(affordable)
        dear = f"; {too_dear} further machines cost more than the rest of the budget" if too_dear else ""
        lanes.say(f"the shortlist ends: no other machine is worth measuring{dear}")
        return None
    if len(rented) >= MOST_RENTED:
        lanes.say(f"the shortlist ends: {MOST_RENTED} machines were rented")
        return None
    lanes.say(next_text(*choice) if choice else f"nothing predicts {chosen.name}: it is measured next")
    return chosen


def _is_affordable(lanes: Dispatcher, machine: Hardware, cost_usd: float) -> bool:
    left_usd = None if lanes.budget_usd is None else lanes.budget_usd - lanes.spent_usd()
    if machine.rent and not buys_a_box(machine, machine.rent, left_usd):
        return False
    return left_usd is None or cost_usd <= left_usd


def _outlook(
    lanes: Dispatcher, records: Sequence[Record], others: Sequence[Hardware]
) -> tuple[list[BestSoFar], set[str]]:
    plan, today = lanes.plan, datetime.now(UTC).date()
    names = {machine.name for machine in plan.hardware}
    gpus = plan.hardware[0].gpus
    offers = [m for m in offered(rentable(DEPLOYMENTS, today), gpus) if m.name not in names] if gpus else []
    try:
        rows = outlook(lanes.store, [*others, *offers])
    except GridbenchError:  # nothing valid is measured so far
        rows = []
    prices = {machine.name: machine.price.usd_per_hour for machine in plan.hardware}
    cells = evidence_in(plan.hardware, records).cells
    measured = measured_s(cell for _, cell in cells)
    return standings(measured, prices, kept_in(lanes.store.folder)), {
        r.target for r in rows if r.is_impossible
    }
