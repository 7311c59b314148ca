"""Findings as CSV: each value as a number of its unit, its interval in columns beside it."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from tasks.report.files.csv_cells import csv_of
from tasks.results.model import Comparison
from tasks.results.table import Column, Mark, Parts, Table, Value
from tasks.results.values import Estimate, Ratio


def finding_files(comparison: Comparison) -> dict[str, bytes]:
    """Return `findings/<name>.csv` of each finding that has rows, with all of them."""
    tables = {finding.name: finding.table() for finding in comparison.findings}
    return {
        f"findings/{name}.csv": csv_of(table_frame(table))
        for name, table in tables.items()
        if table and table.rows
    }


def table_frame(table: Table) -> pd.DataFrame:
    """Return a table as numbers and words: a column `<title> low` and `<title> high` for each interval."""
    return pd.DataFrame(
        dict(
            field
            for column, value in zip(table.columns, row, strict=True)
            for field in _fields(column, value)
        )
        for row in table.rows
    )


def _fields(column: Column, value: Value) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a value: of an interval three, of a ratio its outcome too, of a sum its parts."""
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
