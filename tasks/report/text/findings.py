"""Findings as plain text."""

from collections.abc import Sequence

from tasks.report.text.boxes import box
from tasks.results.finding import Finding
from tasks.results.model import Comparison
from tasks.results.table import Table, cell_text

MANY = 12  # sentences of a kind, before the rest is counted


def findings(comparison: Comparison) -> list[str]:
    """Return the observations, then every finding that has a table."""
    observed = [f"Observations:\n{_lines(comparison.observations)}"] if comparison.observations else []
    return [*observed, *filter(None, map(finding_text, comparison.findings))]


def finding_text(finding: Finding) -> str:
    """Return heading, table and notes of a finding; empty without a shown row."""
    table = finding.table()
    if table is None or not table.shown:
        return ""
    more = len(table.rows) - len(table.shown)
    notes = [*table.notes, *([f"{more} more rows are in benchmark_results.json."] if more else [])]
    return "\n".join([f"{finding.title}:", table_text(table), *(f"* {note}" for note in notes)])


def table_text(table: Table) -> str:
    """Return the shown rows as a box without empty columns."""
    rows = table.shown
    places = table.filled(rows)
    columns = [table.columns[i] for i in places]
    cells = [[" ".join(cell_text(row[i], table.columns[i].quantity).split()) for i in places] for row in rows]
    return box([column.title for column in columns], cells)


def _lines(sentences: Sequence[str]) -> str:
    more = [f"and {len(sentences) - MANY} more"] if len(sentences) > MANY else []
    return "\n".join(f"* {sentence}" for sentence in [*sentences[:MANY], *more])
