"""Findings as JSON and CSV."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from tasks.report.files.csv_cells import csv_of
from tasks.results.comparison import Comparison
from tasks.results.table import Column, Mark, Parts, Table, Value
from tasks.results.values import Estimate, Ratio


def finding_keys(comparison: Comparison) -> dict[str, Any]:
    """Return `findings`, and single findings' top-level keys."""
    keys: dict[str, Any] = {}
    tables = {}
    for finding in comparison.findings:
        keys |= finding.published()
        table = finding.table() or Table((), ())
        tables[finding.name] = {
            "title": finding.title,
            "columns": [
                {"title": c.title, "quantity": str(c.quantity), "unit": c.unit} for c in table.columns
            ],
            "rows": [[_value(value) for value in row] for row in table.rows],
            "notes": list(table.notes),
            "sentences": [*finding.details(), *finding.observations()],
        }
    return keys | {"findings": tables}


def _value(value: Value) -> Any:
    if isinstance(value, Ratio):
        return asdict(value.estimate) | {"outcome": str(value.outcome), "why": value.why}
    if isinstance(value, Estimate):
        return asdict(value)
    if isinstance(value, Mark):
        return value.text
    return dict(value.seconds) if isinstance(value, Parts) else value


def finding_files(comparison: Comparison) -> dict[str, bytes]:
    """Return `findings/<name>.csv` for findings with rows."""
    files = {}
    for finding in comparison.findings:
        if (table := finding.table()) and table.rows:
            pairs = (zip(table.columns, row, strict=True) for row in table.rows)
            frame = pd.DataFrame(dict(field for pair in row for field in _fields(*pair)) for row in pairs)
            files[f"findings/{finding.name}.csv"] = csv_of(frame)
    return files


def _fields(column: Column, value: Value) -> Iterator[tuple[str, Any]]:
    """Add `<title> low` and `<title> high` for an interval."""
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
