"""Nights in a results folder, written by the real writers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from tasks.findings.compare import judged_cells
from tasks.planning.channel import Night
from tasks.planning.plan import Plan, PlannedCase
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.series import Series
from tasks.regressions.series_reader import PastRun, read_nights, series_of
from tasks.store.frames import results_table
from tasks.store.store import Store
from tests.tasks.examples.records import ENVIRONMENT, IMAGES, MATMUL, record
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Record

FIRST = datetime(2026, 11, 1, 2, tzinfo=UTC)
NOW = datetime(2026, 12, 1, tzinfo=UTC)
HERE = "local-cpu"
NEW_DRIVER = ENVIRONMENT | {"nvidia_driver": "580.1", "commit": "e" * 40, "hostname": "box-2"}


def run_name(number: int) -> str:
    return f"{FIRST + timedelta(days=number):%Y%m%d-%H%M%S}-nightly-{number:04x}"


def plan_of(
    number: int,
    night: Night | None = Night(),  # noqa: B008 - it can't be changed
    cases: Sequence[Case] = (MATMUL, IMAGES),
    hardware: Sequence[str] = (HERE,),
    **changes: Any,
) -> Plan:
    fields = {
        "run": run_name(number),
        "created_at": (FIRST + timedelta(days=number)).isoformat(),
        "night": night,
        "cases": tuple(PlannedCase.of(case, None) for case in cases),
        "skips": (),
    }
    return _plan(tuple(hardware)).model_copy(update=fields | changes)


@cache
def _plan(hardware: tuple[str, ...]) -> Plan:
    return make_plan(RunRequest(suite="quick", hardware=hardware, repeats=2, seed=1))


def measured(plan: Plan, seconds: float = 1.0, control_s: float | None = 2.0, **changes: Any) -> list[Record]:
    """Return an ok record for each repeat of a plan, the second 2 % slower, with a control."""
    changes = {"environment": ENVIRONMENT | {"commit": "c" * 40, "hostname": "box-1"}} | changes
    control = Control("frozen", "ok", (), control_s) if control_s else None
    return [
        record(
            seconds * 1.02**number, cell.case, cell.hardware, number, run=plan.run, control=control, **changes
        )
        for cell in plan.cells
        for number in range(plan.repeats)
    ]


def keep(results: Path, plan: Plan, records: Sequence[Record], table: bool = True) -> Store:
    """Write a run; without its table it was interrupted."""
    store = Store.create(results, plan)
    for one in records:
        store.add(one)
    if table:
        refusals = judged_cells(records, plan.machines)[1]
        results_table(records, refusals).to_parquet(store.folder / "results.parquet", index=False)
    return store


def a_night(results: Path, number: int, seconds: float = 1.0, table: bool = True, **changes: Any) -> Store:
    plan = plan_of(number, **changes)
    return keep(results, plan, measured(plan, seconds), table)


def read(results: Path, **options: Any) -> tuple[list[PastRun], list[str]]:
    return read_nights(results, now=NOW, **options)


def by_case(results: Path, **options: Any) -> tuple[dict[str, Series], list[str]]:
    nights, odd = read(results, **options)
    return {series.key.case: series for series in series_of(nights)}, odd


def one_sentence(odd: Sequence[str], *parts: str) -> None:
    (sentence,) = odd
    assert "\n" not in sentence and all(part in sentence for part in parts), sentence
