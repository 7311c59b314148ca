"""Findings as texts for the page."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.report.grid import Grid
from tasks.report.page_limits import MOST_ROWS, firsts
from tasks.results.finding import Finding
from tasks.results.table import NOTHING, Mark, Parts, Quantity, Table, Value, cell_text
from tasks.results.wording import MARKS

MOST_PARTS = 8  # parts of a sum with a colour; smaller ones are added up
OTHER = "other"
_WORDS = (Quantity.TEXT, Quantity.MACHINE, Quantity.VERDICT)


def finding_sections(grid: Grid) -> dict[str, list[dict[str, Any]]]:
    """Return the findings with rows, by section of the page."""
    sections: dict[str, list[dict[str, Any]]] = {}
    for finding in grid.comparison.findings:
        table = finding.table()
        if table and table.shown:
            sections.setdefault(finding.section, []).append(finding_view(finding, table, grid.names))
    return sections


def finding_view(finding: Finding, table: Table, machines: Sequence[str]) -> dict[str, Any]:
    """Return a table as texts, without empty columns."""
    rows, left = firsts(table.shown, MOST_ROWS)
    places = table.filled(rows)
    places = [i for i in places if table.columns[i].quantity is Quantity.MACHINE] + [
        i for i in places if table.columns[i].quantity is not Quantity.MACHINE
    ]
    parts = part_names(rows)
    index = {name: position for position, name in enumerate(machines)}
    return {
        "id": finding.name,
        "title": finding.title,
        "lead": table.lead,
        "notes": table.notes,
        "left": len(table.rows) - len(table.shown) + left,
        "parts": parts,
        "columns": [table.columns[i].title for i in places],
        "rows": [[_cell(row[i], table.columns[i].quantity, index, parts) for i in places] for row in rows],
    }


def part_names(rows: Sequence[Sequence[Value]]) -> list[str]:
    """Return the names of the parts in order; of many the largest, then `other`."""
    sums: dict[str, float] = {}
    for parts in (value for row in rows for value in row if isinstance(value, Parts)):
        for name, seconds in parts.seconds:
            sums[name] = sums.get(name, 0.0) + seconds
    largest = sorted(sums, key=lambda name: sums[name], reverse=True)[: MOST_PARTS - 1]
    kept = list(sums) if len(sums) <= MOST_PARTS else [name for name in sums if name in largest]
    return kept if len(kept) == len(sums) else [*kept, OTHER]


def _cell(value: Value, quantity: Quantity, index: Mapping[str, int], parts: list[str]) -> dict[str, Any]:
    view: dict[str, Any] = {
        "text": cell_text(value, quantity),
        "css": "wrap" if quantity in _WORDS else "number",
        "machine": index.get(str(value), 0) if quantity is Quantity.MACHINE else None,
        "word": "",
        "mark": "",
        "bar": None,
        "parts": None,
    }
    if isinstance(value, Mark) and value.outcome:
        view |= {"word": str(value.outcome), "mark": MARKS[value.outcome]}
    return view | _bar(value, parts) if isinstance(value, Parts) else view


def _bar(value: Parts, names: list[str]) -> dict[str, Any]:
    """Return the segments of a bar in percent of the longest bar, and their seconds."""
    seconds = dict.fromkeys(names, 0.0)
    for name, part in value.seconds:
        seconds[name if name in seconds else OTHER] += part
    whole = value.total_s or 1.0
    return {
        "text": ", ".join(f"{name} {100 * (s / whole):.0f} %" for name, s in seconds.items() if s > 0),
        "bar": [
            {"part": position, "share": round(100 * value.length * (part / whole), 2)}
            for position, part in enumerate(seconds.values())
            if part > 0
        ],
        "parts": [cell_text(part, Quantity.TIME) if part > 0 else NOTHING for part in seconds.values()],
    }
