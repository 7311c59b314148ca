"""The plan of a run, as `plan.json` holds it: its cells, their order, its machines and its estimates."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from tasks.errors import GridbenchError
from tasks.planning.channel import Night
from tasks.planning.hardware import Hardware
from tasks.planning.limits import threads_on
from tasks.pricing.checks import source_text
from tasks.results.model import Machine
from tasks.schema import Strict, first_mistake
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.series import shuffled

SCHEMA = 1
FURTHER = "Then further sizes, until each break-even is known within 1.25x: the estimate does not count them."


class PlannedCase(Strict):
    """A case as it stands in `plan.json`, with the CPU threads of a process where the suite has a say."""

    workload: str
    size: dict[str, int]
    precision: str
    threads: int | None = None

    @classmethod
    def of(cls, case: Case, threads: int | None) -> "PlannedCase":
        """A case, to be written down."""
        return cls(workload=case.workload, size=case.params, precision=case.precision, threads=threads)

    @property
    def case(self) -> Case:
        """The case itself."""
        return Case.of(self.workload, self.size, self.precision)


class PlannedSkip(Strict):
    """A cell that its machine can't measure, and why."""

    hardware: str
    case: PlannedCase
    reason: str


class Plan(Strict):
    """One run, decided: written before anything is measured, and never changed.

    Attributes:
        hardware: copies of the hardware files as they were, with the prices and their doubts of that day.
        seed: of the order and of the inputs.
        profile: whether the first repeat of each cell gets a profile pass.
        break_even: whether further sizes are measured after the cases, until each break-even is known.
        night: what makes it a night, which has controls where a machine has a reference; None for others.
        skips: what is not measured because it can't be, known beforehand.
        estimate_s: seconds that the lanes will take, those of one box one after another.
        estimate_usd: what that costs at the hardware's prices. Neither counts further sizes.
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
    profile: bool = False
    break_even: bool = False
    night: Night | None = None
    baseline: str
    hardware: tuple[Hardware, ...]
    cases: tuple[PlannedCase, ...]
    skips: tuple[PlannedSkip, ...] = ()
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

    def repeats_on(
        self, machine: Hardware, further: Sequence[PlannedCase] = (), after: int = 0
    ) -> list[Repeat]:
        """Every repeat of a lane, in the shuffled order in which it is measured.

        Of `further` cases those alone, with places in the order from `after` on.
        """
        cases = further or self.cases
        threads = {planned.case: threads_on(machine, planned.threads) for planned in cases}
        base = Repeat(
            self.run,
            machine.name,
            cases[0].case,
            seed=self.seed,
            device=machine.device,
            quick=self.quick,
            timeout_s=self.timeout_s,
        )
        todo = shuffled([*threads], base, self.repeats, self.profile)
        return [replace(r, threads=threads[r.case], order=after + r.order) for r in todo]

    def skipped_on(self, machine: str) -> dict[Case, str]:
        """The cases that a machine can't measure, with the reason why."""
        return {skip.case.case: skip.reason for skip in self.skips if skip.hardware == machine}

    def skipped(self) -> list[Record]:
        """A record for every repeat that is planned as skipped: it stands for the measurement."""
        found = []
        for machine in self.hardware if self.skips else ():
            reasons = self.skipped_on(machine.name)
            todo = (repeat for repeat in self.repeats_on(machine) if repeat.case in reasons)
            found += [repeat.failed(Verdict.SKIPPED, reasons[repeat.case]) for repeat in todo]
        return found


def digest(plan: Plan) -> str:
    """Return a short hash of everything in a plan."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()[:16]


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
    if mistake := _contradiction(plan):
        raise GridbenchError(f"{where} can't be right: {mistake}")
    return plan


def _contradiction(plan: Plan) -> str:
    """What no plan of ours holds, in words; empty where there is nothing."""
    names = [machine.name for machine in plan.hardware]
    if plan.baseline not in names:
        return f"its baseline {plan.baseline[:60]!r} is not among its hardware: {', '.join(names) or 'none'}"
    if len({*names}) < len(names):
        return f"it has several machines of one name: {', '.join(names)}"
    if not plan.cases or plan.repeats < 1:
        return f"it has {len(plan.cases)} cases and repeats={plan.repeats}; both must be 1 or more"
    try:
        aware = datetime.fromisoformat(plan.created_at).tzinfo is not None
    except ValueError:
        aware = False
    return "" if aware else f"created_at is {plan.created_at[:60]!r}, no time with a zone in ISO 8601"


def plan_rows(plan: Plan) -> list[dict[str, str]]:
    """The plan as a table: one row a machine."""
    return [
        {
            "hardware": machine.name,
            "what": machine.title,
            "pool": machine.pool,
            "cells": str(len(plan.cases)),
            "skipped": str(len(plan.skipped_on(machine.name))),
            "repeats": str(plan.repeats),
            "USD per hour": f"{machine.price.usd_per_hour:g}",
            "price": source_text(machine.price.note, machine.price.flags),
        }
        for machine in plan.hardware
    ]


def skip_lines(plan: Plan) -> list[str]:
    """A line for each cell that is planned as skipped, with the reason."""
    return [f"{skip.hardware}/{skip.case.case.id} is skipped: {skip.reason}" for skip in plan.skips]
