"""Rows of a run, from its table or its records."""

import json
import math
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tasks.errors import GridbenchError, one_line
from tasks.planning.plan import Plan
from tasks.plausibility.physics import gate
from tasks.results.metrics import cost_of, series_case
from tasks.results.repeats import latest
from tasks.store.frames import results_table
from tasks.store.store import Store
from workloads.harness.records.program import Metric

TABLE = "results.parquet"
TEXTS = ("machine_id", "environment_id", "commit", "reference", "hostname")
SCHEMA = pa.schema(
    [
        (name, pa.string())
        for name in (
            "run",
            "hardware",
            "case",
            "verdict",
            "grade",
            "code",
            "control_verdict",
            "metrics",
            *TEXTS,
        )
    ]
    + [(name, pa.float64()) for name in ("repeat", "compute_s", "control_s", "restless", "session")]
)
CELL = ["hardware", "case"]
NEEDED = {"run", *CELL, "repeat", "verdict", "compute_s"}  # older tables lack others


class MissingColumnError(ValueError):
    """A table lacks a column, like that of a run without records."""


def read_rows(folder: Path, plan: Plan) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per record, and problems."""
    name, problems = plan.run, list[str]()
    try:
        rows = read_table(folder)
    except FileNotFoundError:
        why = f"run {name} has no {TABLE}: it was interrupted or is still running"
        rows, problems = _from_records(folder, plan, why)
    except Exception as error:  # a damaged file makes pyarrow raise nearly anything
        why = f"{TABLE} of run {name} can't be read ({one_line(error, 120)})"
        rows, problems = _from_records(folder, plan, why)
    own = rows["run"].isin([name, folder.name]) & rows["hardware"].notna() & rows["case"].notna()
    if own.all():
        return rows, problems
    count = int((~own).sum())
    foreign = f"left out: {count} records in run {name} belong to another run or to no planned cell"
    return rows[own], [*problems, foreign]


def read_table(folder: Path) -> pd.DataFrame:
    """Return `SCHEMA`'s columns, null if an older version lacks one.

    Raises:
        MissingColumnError: it lacks a column of `NEEDED`.
        Exception: the file is missing or damaged; pyarrow raises nearly anything.
    """
    with pq.ParquetFile(folder / TABLE, page_checksum_verification=True) as file:
        names = {*file.schema_arrow.names}
        present = [name for name in SCHEMA.names if name in names]
        table = file.read(columns=present)
    if absent := NEEDED - {*present}:
        raise MissingColumnError(f"it has no column {min(absent)}")
    table.validate(full=True)  # damaged offsets of texts would point outside the file's memory
    columns = [
        table[field.name].cast(field.type) if field.name in present else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    rows: pd.DataFrame = pa.table(columns, schema=SCHEMA).to_pandas(ignore_metadata=True)
    return rows


def counting(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return sound or wide rows; in older tables `ok`."""
    grade = rows["grade"].where(rows["grade"].notna(), rows["verdict"].map({"ok": "sound"}))
    return grade.isin(["sound", "wide"])


def by_metric(rows: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Return a row per metric in place of its record's, with its cost as the time."""
    programs = {p.case.id: p.script.program for p in plan.cases if p.script and p.script.program}
    parts = [rows[~rows["case"].isin([case for case, program in programs.items() if program.metrics])]]
    for case, program in programs.items():
        own = rows[rows["case"] == case]
        for metric in program.metrics:
            costs = [_cost(text, metric) for text in own["metrics"]]
            parts.append(own.assign(case=series_case(case, metric), compute_s=costs))
    return pd.concat(parts, ignore_index=True) if len(parts) > 1 else rows


def _cost(text: object, metric: Metric) -> float:
    try:
        number = json.loads(str(text))[metric.name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.nan
    cost = cost_of(metric, number) if isinstance(number, int | float) else None
    return math.nan if cost is None else cost


@cache
def no_rows() -> pd.DataFrame:
    return _frame(pd.DataFrame())


def _from_records(folder: Path, plan: Plan, why: str) -> tuple[pd.DataFrame, list[str]]:
    try:
        records, problems = Store(folder).records()
    except GridbenchError as error:
        return no_rows(), [f"{why}, and its records can't be read: {error}"]
    if not records:
        return no_rows(), [f"{why}, and it has no record", *problems]
    refusals = gate(latest(records), plan.machines)
    used = f"{why}: its {len(records)} records are used instead"
    return _frame(results_table(records, refusals)), [used, *problems]


def _frame(table: pd.DataFrame) -> pd.DataFrame:
    kinds = {field.name: float if pa.types.is_floating(field.type) else "str" for field in SCHEMA}
    return table.reindex(columns=SCHEMA.names).astype(kinds)
