"""Further sizes until each break-even is known closely."""

import math
from collections.abc import Iterable, Mapping, Sequence

from tasks.dispatch.break_even_search import next_cells
from tasks.dispatch.dispatcher import Dispatcher
from tasks.findings.compare import judged_cells, pairs
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan, PlannedCase
from tasks.planning.planner import skip_reason
from tasks.results.billing import usd
from tasks.results.metrics import measured_of, one_number
from tasks.results.repeats import latest
from tasks.results.sessions import Sessions
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.record import Record
from workloads.harness.registry import declared
from workloads.harness.repeat.limits import at_least


def further_cells(lanes: Dispatcher) -> list[Cell]:
    """Return cells to measure next, already in the lanes.

    None are left once every break-even is known, or too expensive. Records alone decide, also after a resume.
    """
    plan = lanes.plan
    if not plan.break_even or lanes.failed:
        return []
    records = settled(plan, lanes.arrived.values())
    next_cases = _possible(plan, _next_cells(plan, records))
    usd = math.fsum(_usd(plan, records, hardware, cases) for hardware, cases in next_cases.items())
    left = math.inf if lanes.budget_usd is None else lanes.budget_usd - lanes.spent_usd()
    cells = [Cell(hardware, planned.case) for hardware, cases in next_cases.items() for planned in cases]
    if usd > left:
        sizes = ", ".join(cell.id for cell in cells)
        lanes.say(
            f"the next sizes for the break-even would cost about {usd:.2g} USD, more than the {left:.2g} USD "
            f"left of budget_usd={lanes.budget_usd:g}; not measured: {sizes}"
        )
        return []
    for hardware, cases in next_cases.items():
        lanes.extend(hardware, cases)
    if cells:
        lanes.say(f"to narrow the break-even: {', '.join(cell.id for cell in cells)}")
    return cells


def settled(plan: Plan, records: Iterable[Record]) -> list[Record]:
    """Return the plan's records, and further cases' if complete on the baseline too."""
    suite_cases, arrived = {planned.case for planned in plan.cases}, list(records)
    counts: dict[Cell, int] = {}
    for record in arrived:
        counts[record.cell] = counts.get(record.cell, 0) + 1

    def complete(record: Record) -> bool:
        both = (record.cell, Cell(plan.baseline, record.case))
        return all(counts.get(cell, 0) >= plan.repeats for cell in both)

    return [record for record in arrived if record.case in suite_cases or complete(record)]


def _next_cells(plan: Plan, records: Sequence[Record]) -> tuple[Cell, ...]:
    if not records:
        return ()
    cells = one_number(judged_cells(latest(records), plan.machines)[0])
    numbers = {measured_of(cell.cell.case): cell.cell.case for cell in cells}
    planned = {numbers.get(planned.case, planned.case) for planned in plan.cases}
    sessions = Sessions.of(plan.machines, assumed=plan.session_effect)
    pairings = pairs(cells, plan.machines, plan.baseline, sessions)
    wanted = next_cells(pairings, planned, _step)
    return tuple(dict.fromkeys(Cell(cell.hardware, measured_of(cell.case)) for cell in wanted))


def _step(case: Case, parameter: str) -> int:
    workload = declared(
        case.workload
    )  # None for a user's script, or if only the machine that measures has it
    multiples = workload.multiples if workload else None
    return multiples(**case.params).get(parameter, 1) if multiples else 1


def _possible(plan: Plan, cells: Iterable[Cell]) -> Mapping[str, list[PlannedCase]]:
    machines = {machine.name: machine for machine in plan.hardware}
    planned = {cell: _planned(plan, cell.case) for cell in cells}
    skipped = {
        cell.case
        for cell, case in planned.items()
        if skip_reason(machines[cell.hardware], case, plan.timeout_s)
    }
    possible: dict[str, list[PlannedCase]] = {}
    for cell, case in planned.items():
        if cell.case not in skipped:
            possible.setdefault(cell.hardware, []).append(case)
    return possible


def _planned(plan: Plan, case: Case) -> PlannedCase:
    same_kind = [p for p in plan.cases if (p.workload, p.case.terms) == (case.workload, case.terms)]
    nearest = max(
        same_kind, key=lambda p: sum(case.params.get(n) == v for n, v in p.size.items()), default=None
    )
    if nearest is None:
        return PlannedCase.of(case, None)
    return PlannedCase.of(case, nearest.threads, nearest.soak_s, nearest.script)


def _usd(plan: Plan, records: Sequence[Record], hardware: str, cases: Sequence[PlannedCase]) -> float:
    machine = next(machine for machine in plan.hardware if machine.name == hardware)
    own = [record for record in records if record.hardware == hardware]
    return measuring_usd(plan, own, machine, [planned.case for planned in cases])


def measuring_usd(plan: Plan, records: Sequence[Record], machine: Hardware, cases: Iterable[Case]) -> float:
    """Estimate the cost; each case takes no longer than a larger measured one."""
    repeats_s = math.fsum(_repeat_s(plan, records, case) for case in cases)
    return usd(machine.start_s + plan.repeats * repeats_s, machine.price.usd_per_hour)


def _repeat_s(plan: Plan, records: Sequence[Record], case: Case) -> float:
    """Return an upper bound: the quickest larger case, or the timeout."""
    longest: dict[Case, float] = {}
    for record in records:
        if at_least(record.case, case):
            longest[record.case] = max(longest.get(record.case, 0.0), record.wall_s)
    return min(longest.values(), default=plan.timeout_s)
