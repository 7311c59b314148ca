"""Findings as JSON: one rule for all of them."""

from dataclasses import asdict
from typing import Any

from tasks.results.finding import Finding
from tasks.results.model import Comparison
from tasks.results.table import Mark, Parts, Table, Value
from tasks.results.values import Estimate, Ratio


def finding_keys(comparison: Comparison) -> dict[str, Any]:
    """Return `findings`, and the keys that single findings have at the top level."""
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
        "sentences": [*finding.answer(), *finding.observations()],
    }


def _value(value: Value) -> Any:
    """Return a value with its interval as an object, words and numbers as they are."""
    if isinstance(value, Ratio):
        return asdict(value.estimate) | {"outcome": str(value.outcome), "why": value.why}
    if isinstance(value, Estimate):
        return asdict(value)
    if isinstance(value, Mark):
        return value.text
    return dict(value.seconds) if isinstance(value, Parts) else value
