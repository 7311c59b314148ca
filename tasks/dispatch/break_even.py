"""Further sizes, measured after the suite until each break-even is known closely."""

import math
from collections.abc import Iterable, Mapping, Sequence

from tasks.dispatch.break_even_search import next_cells
from tasks.dispatch.dispatcher import Dispatcher
from tasks.findings.compare import judged_cells, pairs
from tasks.planning.plan import Plan, PlannedCase
from tasks.planning.planner import skip_reason
from tasks.results.repeats import latest
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Record
from workloads.harness.registry import find
from workloads.harness.repeat.limits import at_least


def further_cells(lanes: Dispatcher) -> list[Cell]:
    """The cells to measure next, known to the lanes by now; none once every break-even is known, or too dear.

    They follow from the records alone, so a run that is resumed goes on where it was.
    """
    plan = lanes.plan
    if not plan.break_even or lanes.failed:
        return []
    records = settled(plan, lanes.arrived.values())
    found = _possible(plan, _wanted(plan, records))
    usd = math.fsum(_usd(plan, records, hardware, cases) for hardware, cases in found.items())
    left = math.inf if lanes.budget_usd is None else lanes.budget_usd - lanes.spent_usd()
    cells = [Cell(hardware, planned.case) for hardware, cases in found.items() for planned in cases]
    if usd > left:
        sizes = ", ".join(cell.id for cell in cells)
        lanes.say(
            f"the next sizes for the break-even would cost about {usd:.2g} USD, more than the {left:.2g} USD "
            f"that are left of budget_usd={lanes.budget_usd:g}; not measured: {sizes}"
        )
        return []
    for hardware, cases in found.items():
        lanes.extend(hardware, cases)
    if cells:
        lanes.say(f"to narrow the break-even: {', '.join(cell.id for cell in cells)}")
    return cells


def settled(plan: Plan, records: Iterable[Record]) -> list[Record]:
    """The plan's records, and of further cases those with all their repeats on the baseline too.

    What an interrupted run has left half measured is asked for again, and only then decides anything.
    """
    of_suite, known = {planned.case for planned in plan.cases}, list(records)
    counts: dict[Cell, int] = {}
    for record in known:
        counts[record.cell] = counts.get(record.cell, 0) + 1

    def whole(record: Record) -> bool:
        both = (record.cell, Cell(plan.baseline, record.case))
        return all(counts.get(cell, 0) >= plan.repeats for cell in both)

    return [record for record in known if record.case in of_suite or whole(record)]


def _wanted(plan: Plan, records: Sequence[Record]) -> tuple[Cell, ...]:
    if not records:
        return ()
    cells, _ = judged_cells(latest(records), plan.machines)
    pairings = pairs(cells, plan.machines, plan.baseline)
    return next_cells(pairings, {planned.case for planned in plan.cases}, _step)


def _step(case: Case, parameter: str) -> int:
    """Return the number that sizes of a workload's parameter must be a multiple of."""
    try:
        multiples = find(case.workload).multiples
    except WorkloadsError:  # only the machine that measures has it
        return 1
    return multiples(**case.params).get(parameter, 1) if multiples else 1


def _possible(plan: Plan, cells: Iterable[Cell]) -> Mapping[str, list[PlannedCase]]:
    """By hardware, what neither of the machines of a case is too small for."""
    machines = {machine.name: machine for machine in plan.hardware}
    planned = {cell: PlannedCase.of(cell.case, _threads(plan, cell.case)) for cell in cells}
    skipped = {c.case for c, of in planned.items() if skip_reason(machines[c.hardware], of, plan.timeout_s)}
    found: dict[str, list[PlannedCase]] = {}
    for cell, of in planned.items():
        if cell.case not in skipped:
            found.setdefault(cell.hardware, []).append(of)
    return found


def _threads(plan: Plan, case: Case) -> int | None:
    """CPU threads as the suite has them for the case that differs least."""
    like = [of for of in plan.cases if (of.workload, of.precision) == (case.workload, case.precision)]
    nearest = max(like, key=lambda of: sum(case.params[n] == v for n, v in of.size.items()), default=None)
    return nearest.threads if nearest else None


def _usd(plan: Plan, records: Sequence[Record], hardware: str, cases: Sequence[PlannedCase]) -> float:
    """About what it costs to measure cases on a machine: each takes no longer than one that is larger."""
    machine = next(machine for machine in plan.hardware if machine.name == hardware)
    seconds = machine.start_s + plan.repeats * math.fsum(
        _repeat_s(plan, [r for r in records if r.hardware == hardware], of.case) for of in cases
    )
    return machine.price.usd_per_hour * seconds / 3600


def _repeat_s(plan: Plan, records: Sequence[Record], case: Case) -> float:
    """Seconds of a repeat, at most: those of the quickest larger case, or the timeout."""
    longest: dict[Case, float] = {}
    for record in records:
        if at_least(record.case, case):
            longest[record.case] = max(longest.get(record.case, 0.0), record.wall_s)
    return min(longest.values(), default=plan.timeout_s)
