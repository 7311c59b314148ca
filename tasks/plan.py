"""From a suite and hardware to cells and what they will take: all that is decided before anything runs."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from pydantic import ValidationError

from tasks.analysis.model import Machine
from tasks.catalog import Hardware, Strict, first_mistake, load_hardware, load_suite_checked
from tasks.errors import GridbenchError
from workloads.harness.case import Case, Cell
from workloads.harness.runs import Repeat
from workloads.harness.series import shuffled

SCHEMA = 1
LANE_START_S = 10.0  # a job's start on a machine that is up: Prefect's imports and the first poll


class PlannedCase(Strict):
    """A case as it stands in `plan.json`."""

    workload: str
    size: dict[str, int]
    precision: str

    @property
    def case(self) -> Case:
        """The case itself."""
        return Case.of(self.workload, self.size, self.precision)


class Plan(Strict):
    """One run, decided: written before anything is measured, and never changed.

    Attributes:
        hardware: copies of the hardware files as they were, prices included.
        seed: of the order and of the inputs.
        estimate_s: seconds that the lanes will take, those of one box one after another.
        estimate_usd: what that costs at the hardware's prices.
    """

    schema_version: int = SCHEMA
    run: str
    suite: str
    title: str
    created_at: str
    gridbench: str
    seed: int
    repeats: int
    quick: bool
    timeout_s: float
    baseline: str
    hardware: tuple[Hardware, ...]
    cases: tuple[PlannedCase, ...]
    estimate_s: float
    estimate_usd: float

    @property
    def cells(self) -> list[Cell]:
        """Every cell of the grid."""
        return [Cell(machine.name, planned.case) for machine in self.hardware for planned in self.cases]

    @property
    def machines(self) -> list[Machine]:
        """The facts of its hardware that a comparison needs."""
        return [machine.machine() for machine in self.hardware]

    def repeats_on(self, machine: Hardware) -> list[Repeat]:
        """Every repeat of a lane, in the shuffled order in which it is measured."""
        cases = [planned.case for planned in self.cases]
        base = Repeat(self.run, machine.name, cases[0], device=machine.device, threads=machine.threads)
        return shuffled(cases, base, self.repeats, self.seed, self.quick, self.timeout_s)


def make_plan(
    suite: str,
    hardware: Sequence[str],
    baseline: str | None = None,
    repeats: int | None = None,
    budget_usd: float | None = None,
    seed: int | None = None,
) -> Plan:
    """Decide a run. Repeats come from the suite where none are given, the baseline is the first hardware.

    Raises:
        GridbenchError: something asked for doesn't exist, or the estimate is above the budget.
    """
    chosen, machines = load_suite_checked(suite), [load_hardware(name) for name in dict.fromkeys(hardware)]
    if not machines:
        raise GridbenchError("hardware is empty; name at least one machine, such as local-cpu")
    base = _baseline(baseline, machines)
    count = chosen.repeats if repeats is None else repeats
    if count < 1:
        raise GridbenchError(f"repeats={count} must be 1 or more")
    lane_s = LANE_START_S + len(chosen.cases) * count * chosen.estimate_s
    now = datetime.now(UTC)
    plan = Plan(
        run=f"{now:%Y%m%d-%H%M%S}-{chosen.name}-{secrets.token_hex(2)}",
        suite=chosen.name,
        title=chosen.title,
        created_at=now.isoformat(timespec="seconds"),
        gridbench=version("gridbench"),
        seed=secrets.randbelow(2**31) if seed is None else seed,
        repeats=count,
        quick=chosen.quick,
        timeout_s=chosen.timeout_s,
        baseline=base,
        hardware=tuple(machines),
        cases=tuple(
            PlannedCase(workload=c.workload, size=c.params, precision=c.precision) for c in chosen.cases
        ),
        estimate_s=_estimate_s(machines, lane_s),
        estimate_usd=sum(machine.price.usd_per_hour * lane_s / 3600 for machine in machines),
    )
    check_budget(plan, budget_usd)
    return plan


def _baseline(wanted: str | None, machines: Sequence[Hardware]) -> str:
    names = [machine.name for machine in machines]
    if wanted and wanted not in names:
        raise GridbenchError(f"baseline {wanted!r} is not among the hardware of this run: {', '.join(names)}")
    return wanted or names[0]


def check_budget(plan: Plan, budget_usd: float | None) -> None:
    """Refuse a plan that would cost more than is allowed.

    Raises:
        GridbenchError: the budget is negative or the estimate is above it.
    """
    if budget_usd is None:
        return
    if not budget_usd >= 0:
        raise GridbenchError(f"budget_usd={budget_usd} must be 0 or more")
    if plan.estimate_usd > budget_usd:
        raise GridbenchError(
            f"the estimate of {plan.estimate_usd:.2f} USD is above budget_usd={budget_usd:g}; "
            "raise it, or take fewer cells, repeats or machines"
        )


def _estimate_s(machines: Sequence[Hardware], lane_s: float) -> float:
    """Boxes work side by side, lanes of one box take turns."""
    boxes = [machine.box or machine.name for machine in machines]
    return max(boxes.count(box) for box in boxes) * lane_s


def read_plan(text: str, where: str) -> Plan:
    """Read a plan that was written.

    Raises:
        GridbenchError: it is corrupt or of another schema version.
    """
    try:
        plan = Plan.model_validate_json(text)
    except ValidationError as error:
        raise GridbenchError(f"{where} can't be read: {first_mistake(error)}") from None
    if plan.schema_version != SCHEMA:
        raise GridbenchError(f"{where} has schema {plan.schema_version}, this version reads {SCHEMA}")
    return plan


def plan_rows(plan: Plan) -> list[dict[str, str]]:
    """The plan as a table: one row a machine."""
    return [
        {
            "hardware": machine.name,
            "what": machine.title,
            "pool": machine.pool,
            "cells": str(len(plan.cases)),
            "repeats": str(plan.repeats),
            "USD per hour": f"{machine.price.usd_per_hour:g}",
            "price": machine.price.note,
        }
        for machine in plan.hardware
    ]
