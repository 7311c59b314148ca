"""`plan.json`: cells, order, machines and estimates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from pydantic import NonNegativeFloat, ValidationError

from tasks.errors import GridbenchError
from tasks.planning.channel import Night
from tasks.planning.hardware import Hardware
from tasks.planning.limits import threads_on
from tasks.pricing.checks import source_text
from tasks.results.format import format_count
from tasks.results.model import Machine
from tasks.schema import Strict, first_mistake
from workloads.harness.records.case import EAGER, Case, Cell
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
from workloads.harness.repeat.series import shuffled

SCHEMA = 1
MOST_LISTED = 3  # skipped cells that a line names
RUN_NAME = r"[^/.\0][^/\0]*"  # it becomes a folder, and files of a site
FURTHER = "Then further sizes, until each break-even is known within 1.25x: the estimate does not count them."


class PlannedCase(Strict):
    """A case, with threads of a process and soak if the suite sets them.

    A script has its code's id; a resume measures that or refuses. `partner`: the script at the version in
    turns.
    """

    workload: str
    size: dict[str, int]
    precision: str
    mode: str = EAGER
    threads: int | None = None
    soak_s: float | None = None
    script: Script | None = None
    partner: Script | None = None

    @classmethod
    def of(
        cls,
        case: Case,
        threads: int | None,
        soak_s: float | None = None,
        script: Script | None = None,
        partner: Script | None = None,
    ) -> "PlannedCase":
        return cls(
            workload=case.workload,
            size=case.params,
            precision=case.precision,
            mode=case.mode,
            threads=threads,
            soak_s=soak_s,
            script=script,
            partner=partner,
        )

    @property
    def case(self) -> Case:
        return Case.of(self.workload, self.size, self.precision, self.mode)


class PlannedSkip(Strict):
    """A cell that can't be measured, with the reason."""

    hardware: str
    case: PlannedCase
    reason: str


class Plan(Strict):
    """All decisions about a run: written first, never changed.

    Attributes:
        hardware: copies with that day's prices and doubts.
        seed: of order and inputs.
        profile: each cell's first repeat gets a profile pass.
        acceptance: the report advises which machines to keep.
        break_even: measure further sizes until each break-even is known.
        shortlist: measure the first machine, and those that can be fastest or cheapest by prediction.
            Estimates count the first alone.
        sessions: over which a cell's repeats are spread in turn. Each is another job, on another box if
            rented.
        session_gap_s: least seconds between them, unless rented.
        session_effect: assumed standard deviation between sessions, as a share; None for the usual one.
        confirms: the run measured again.
        night: it has controls on machines with a reference.
        skips: cells that can't be measured.
        notes: on guessed estimates, uncommitted scripts, changed prices, and a shortlist's machines.
        estimate_s: until all lanes end, with the distance of sessions.
        estimate_usd: at the hardware's prices. Neither counts further sizes.
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
    acceptance: bool = False
    break_even: bool = False
    shortlist: bool = False
    sessions: int = 1
    session_gap_s: NonNegativeFloat = 0.0
    session_effect: NonNegativeFloat | None = None
    confirms: str | None = None
    night: Night | None = None
    baseline: str
    hardware: tuple[Hardware, ...]
    cases: tuple[PlannedCase, ...]
    skips: tuple[PlannedSkip, ...] = ()
    notes: tuple[str, ...] = ()
    estimate_s: float
    estimate_usd: float

    @property
    def cells(self) -> list[Cell]:
        return [Cell(machine.name, planned.case) for machine in self.hardware for planned in self.cases]

    def cells_begun(self, records: Iterable[Record]) -> list[Cell]:
        """Return every cell; of a shortlist those of the first and of these records' machines."""
        names = {self.hardware[0].name, *(record.hardware for record in records)}
        return [cell for cell in self.cells if not self.shortlist or cell.hardware in names]

    @property
    def machines(self) -> list[Machine]:
        return [machine.machine() for machine in self.hardware]

    def repeats_on(
        self, machine: Hardware, further: Sequence[PlannedCase] = (), after: int = 0
    ) -> list[Repeat]:
        """Return a lane's repeats in shuffled order.

        With `further` cases, return theirs, numbered from `after`.
        """
        cases = {planned.case: planned for planned in further or self.cases}
        base = Repeat(
            self.run,
            machine.name,
            next(iter(cases)),
            seed=self.seed,
            device=machine.device,
            quick=self.quick,
            timeout_s=self.timeout_s,
            gpu=machine.gpu,
        )
        todo = shuffled([*cases], base, self.repeats, self.profile)
        return [
            replace(
                _as_planned(repeat, cases[repeat.case], machine, after),
                session=self.session_of(repeat.repeat),
            )
            for repeat in todo
        ]

    def session_of(self, repeat: int) -> int | None:
        """Return it from 1; None without sessions."""
        return 1 + (repeat - 1) % self.sessions if self.sessions > 1 else None

    def skipped_on(self, machine: str) -> dict[Case, str]:
        """Return cases with reasons."""
        return {skip.case.case: skip.reason for skip in self.skips if skip.hardware == machine}

    def skipped(self) -> list[Record]:
        """Return a record for every skipped repeat."""
        records = []
        for machine in self.hardware if self.skips else ():
            reasons = self.skipped_on(machine.name)
            todo = (repeat for repeat in self.repeats_on(machine) if repeat.case in reasons)
            records += [repeat.failed(Verdict.SKIPPED, reasons[repeat.case]) for repeat in todo]
        return records


def _as_planned(repeat: Repeat, planned: PlannedCase, machine: Hardware, after: int) -> Repeat:
    return replace(
        repeat,
        threads=threads_on(machine, planned.threads),
        soak_s=planned.soak_s,
        script=planned.script,
        partner=planned.partner,
        order=after + repeat.order,
    )


def read_plan(text: str, where: str) -> Plan:
    """Read the text of a `plan.json`.

    Raises:
        GridbenchError: corrupt or of another schema version.
    """
    try:
        plan = Plan.model_validate_json(text)
    except ValidationError as error:
        raise GridbenchError(f"{where} can't be read: {first_mistake(error)}") from None
    if plan.schema_version != SCHEMA:
        raise GridbenchError(f"{where} has schema {plan.schema_version}, this version reads {SCHEMA}")
    if mistake := contradiction(plan):
        raise GridbenchError(f"{where} can't be right: {mistake}")
    return plan


def contradiction(plan: Plan) -> str:
    """Return the first impossible value; else empty."""
    names = [machine.name for machine in plan.hardware]
    if not re.fullmatch(RUN_NAME, plan.run):
        return f"its run is called {plan.run[:60]!r}, which cannot be the name of a folder"
    if plan.baseline not in names:
        return f"its baseline {plan.baseline[:60]!r} is not among its hardware: {', '.join(names) or 'none'}"
    if len({*names}) < len(names):
        return f"it has several machines of one name: {', '.join(names)}"
    if not plan.cases or plan.repeats < 1:
        return f"it has {len(plan.cases)} cases and repeats={plan.repeats}; both must be 1 or more"
    if not 1 <= plan.sessions <= plan.repeats:
        return f"it has sessions={plan.sessions} and repeats={plan.repeats}: each session needs a repeat"
    try:
        aware = datetime.fromisoformat(plan.created_at).tzinfo is not None
    except ValueError:
        aware = False
    return "" if aware else f"created_at is {plan.created_at[:60]!r}, no time with a zone in ISO 8601"


def plan_rows(plan: Plan, predicted: Mapping[str, str] = MappingProxyType({})) -> list[dict[str, str]]:
    """Return a row per machine, and predictions if any."""
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
            **({"predicted (90 %)": predicted.get(machine.name, "–")} if predicted else {}),
        }
        for machine in plan.hardware
    ]


def skip_lines(plan: Plan) -> list[str]:
    """Return a line for each machine and reason.

    Reasons that differ only in numbers are one, with the first cell's.
    """
    groups: dict[tuple[str, str], list[PlannedSkip]] = {}
    for skip in plan.skips:
        groups.setdefault((skip.hardware, re.sub(r"[\d.,]+", "#", skip.reason)), []).append(skip)
    lines = []
    for (hardware, _), skips in groups.items():
        cases = [skip.case.case.id for skip in skips]
        more = f" and {len(cases) - MOST_LISTED} more" if len(cases) > MOST_LISTED else ""
        named = f"{', '.join(cases[:MOST_LISTED])}{more}"
        lines.append(f"{format_count(len(skips), 'cell')} skipped on {hardware}: {skips[0].reason} ({named})")
    return lines
