"""`comparison.txt`: a run's results as ASCII."""

from collections.abc import Sequence
from typing import Any

from tasks.report.grid import Grid
from tasks.report.models import device_times, model_rows
from tasks.report.page_limits import firsts
from tasks.report.scaling_rows import family_tables
from tasks.report.text.boxes import box, text_tables
from tasks.report.text.operations import hardware_table, job_table, size_tables
from tasks.results.comparison import Comparison
from tasks.results.finding import Finding
from tasks.results.table import cell_text
from tasks.results.wording import PLAIN
from workloads.harness.records.record import Record

MOST_OBSERVATIONS = 12


def full_text(records: Sequence[Record], grid: Grid) -> str:
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
    text = "\n\n".join(filter(None, parts)).translate(PLAIN | {0xA0: " ", 0x2019: "'"})
    return text.encode("ascii", "replace").decode() + "\n"


def _family(family: dict[str, Any]) -> str:
    titles = {
        "processes": "Processes",
        "time": family["step"],
        "throughput": "Throughput",
        "speedup": "Speedup",
        "efficiency": "Efficiency",
        "serial": "Serial",
        "communication": "Communication",
        "memory": "Memory by rank",
    }
    texts = (row | {"efficiency": f"{row['efficiency']} {row['band']}".rstrip()} for row in family["rows"])
    table = box([*titles.values()], [[row[key] for key in titles] for row in texts])
    notes = "".join(f"\n* {note}" for note in family["notes"])
    return f"{family['title']} on {family['hardware']}, over {family['base']}\n{table}{notes}"


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


def findings(comparison: Comparison) -> list[str]:
    """Return observations, then findings with tables."""
    sentences, more = firsts(comparison.observations, MOST_OBSERVATIONS)
    lines = [f"* {sentence}" for sentence in sentences] + [f"* and {more} more"] * bool(more)
    observed = ["\n".join(["Observations:", *lines])] if lines else []
    return [*observed, *filter(None, map(finding_text, comparison.findings))]


def finding_text(finding: Finding) -> str:
    """Return empty without a shown row."""
    table = finding.table()
    if table is None or not table.shown:
        return ""
    more = len(table.rows) - len(table.shown)
    notes = [*table.notes, *([f"{more} more rows are in benchmark_results.json."] if more else [])]
    places, columns = table.filled(table.shown), table.columns
    cells = [
        [" ".join(cell_text(row[i], columns[i].quantity).split()) for i in places] for row in table.shown
    ]
    text = box([columns[i].title for i in places], cells)
    return "\n".join([f"{finding.title}:", text, *(f"* {note}" for note in notes)])
