"""`comparison.txt`: all that a run has to say, as plain ASCII for terminals, mail and logs."""

from collections.abc import Sequence
from typing import Any

from tasks.report.grid import Grid
from tasks.report.models import device_times, model_rows
from tasks.report.scaling_rows import family_tables
from tasks.report.text.boxes import box, text_tables
from tasks.report.text.operations import hardware_table, job_table, size_tables
from tasks.results.comparison import Comparison
from tasks.results.finding import Finding
from tasks.results.table import Table, cell_text
from tasks.results.wording import PLAIN
from workloads.harness.records.record import Record


def full_text(records: Sequence[Record], grid: Grid) -> str:
    """Return the comparison, then findings, operations, sizes, scaling, models and machines."""
    comparison = grid.comparison
    others = [name for name in grid.names if name != comparison.baseline]
    parts = [
        text_tables(grid).rstrip(),
        *findings(comparison),
        *(job_table(grid, records, name) for name in others),
        *(table for name in others for table in size_tables(grid, name)),
        *(_family(family) for family in family_tables(comparison)),
        _models(records, grid),
        _device_times(records, grid),
        hardware_table(grid, records),
    ]
    return _plain("\n\n".join(filter(None, parts))) + "\n"


def _plain(text: str) -> str:
    """ASCII, whatever a machine calls itself."""
    return text.translate(PLAIN | {0xA0: " ", 0x2019: "'"}).encode("ascii", "replace").decode()


def _family(family: dict[str, object]) -> str:
    header = [
        "Processes",
        str(family["step"]),
        "Throughput",
        "Speedup",
        "Efficiency",
        "Serial",
        "Communication",
    ]
    keys = ("processes", "time", "throughput", "speedup", "efficiency", "serial", "communication", "memory")
    matches = family["rows"]
    assert isinstance(matches, list)
    rows = [[_cell(row, key) for key in keys] for row in matches]
    table = box([*header, "Memory by rank"], rows)
    notes = "".join(f"\n* {note}" for note in family["notes"])  # type: ignore[attr-defined]
    return f"{family['title']} on {family['hardware']}, over {family['base']}\n{table}{notes}"


def _cell(row: dict[str, Any], key: str) -> str:
    return f"{row[key]} {row['band'] if key == 'efficiency' else ''}".rstrip()


def _models(records: Sequence[Record], grid: Grid) -> str:
    keys = ("hardware", "size", "raw", "parameters", "quality")
    rows = [
        [model["title"].replace(" · ", " "), *(row[key] for key in keys)]
        for model in model_rows(records, grid)
        for row in model["rows"]
    ]
    return box(["Model", "Hardware", "Size", "Repeats", "Parameters", "Learned"], rows) if rows else ""


def _device_times(records: Sequence[Record], grid: Grid) -> str:
    rows = [
        [row["case"].replace(" · ", " "), *(" ".join(filter(None, c.values())) for c in row["cells"])]
        for row in device_times(records, grid)
    ]
    return box(["Device time", *grid.names], rows) if rows else ""


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
