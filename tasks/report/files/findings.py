"""Findings as JSON and CSV."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from tasks.report.files.csv_cells import csv_of
from tasks.results.comparison import Comparison
from tasks.results.finding import Finding
from tasks.results.table import Column, Mark, Parts, Table, Value
from tasks.results.values import Estimate, Ratio


def finding_keys(comparison: Comparison) -> dict[str, Any]:
    """Return `findings`, and the top-level keys of single findings."""
    own = [finding.published() for finding in comparison.findings]
    return {
        **{key: value for keys in own for key, value in keys.items()},
        "findings": {finding.name: _finding(finding) for finding in comparison.findings},
    }


def _finding(finding: Finding) -> dict[str, Any]:
    table = finding.table() or Table((), ())
    return {
        "title": finding.title,
        "columns": [
            {"title": column.title, "quantity": str(column.quantity), "unit": column.unit}
            for column in table.columns
        ],
        "rows": [[_value(value) for value in row] for row in table.rows],
        "notes": list(table.notes),
        "sentences": [*finding.details(), *finding.observations()],
    }


def _value(value: Value) -> Any:
    """Return an estimate as an object, and text and numbers unchanged."""
    if isinstance(value, Ratio):
        return asdict(value.estimate) | {"outcome": str(value.outcome), "why": value.why}
    if isinstance(value, Estimate):
        return asdict(value)
    if isinstance(value, Mark):
        return value.text
    return dict(value.seconds) if isinstance(value, Parts) else value


def finding_files(comparison: Comparison) -> dict[str, bytes]:
    """Return the content of `findings/<name>.csv` for each finding with rows."""
    tables = {finding.name: finding.table() for finding in comparison.findings}
    return {
        f"findings/{name}.csv": csv_of(table_frame(table))
        for name, table in tables.items()
        if table and table.rows
    }


def table_frame(table: Table) -> pd.DataFrame:
    """Return a table with columns `<title> low` and `<title> high` for each interval."""
    return pd.DataFrame(
        dict(
            field
            for column, value in zip(table.columns, row, strict=True)
            for field in _fields(column, value)
        )
        for row in table.rows
    )


def _fields(column: Column, value: Value) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a value and their contents."""
    name = f"{column.title} ({column.unit})" if column.unit not in ("", "1") else column.title
    if isinstance(value, Ratio):
        yield from _fields(column, value.estimate)
        yield f"{column.title} outcome", str(value.outcome)
    elif isinstance(value, Estimate):
        yield name, value.value
        yield f"{name} low", value.low
        yield f"{name} high", value.high
    elif isinstance(value, Parts):
        yield from ((f"{name} {part}", seconds) for part, seconds in value.seconds)
    else:
        yield name, value.text if isinstance(value, Mark) else value
