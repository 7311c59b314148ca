"""A run's files, each written atomically."""

import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from tasks.report.charts.pictures import models_png, speedup_png, time_by_size_png
from tasks.report.charts.scaling_pictures import gpu_comparison_png, summary_table_png
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.comparison_table import comparison_table
from tasks.report.files.csv_cells import csv_of
from tasks.report.files.findings import finding_files
from tasks.report.grid import Grid, grid_of
from tasks.report.html.page import report_html
from tasks.report.info import RunInfo
from tasks.report.text.comparison import full_text
from tasks.results.comparison import Comparison
from tasks.store.frames import results_table
from workloads.harness.records.files import write_whole
from workloads.harness.records.finite_json import to_json
from workloads.harness.records.record import Record

LOG = logging.getLogger(__name__)


def write_report(folder: Path, records: Sequence[Record], comparison: Comparison, run: RunInfo) -> Path:
    """Return the path of `report.html`.

    Pictures come last, so that a failed one costs no other file.
    """
    grid = grid_of(records, comparison)
    parquet = io.BytesIO()
    results_table(records, comparison.refusals).to_parquet(parquet, index=False, write_page_checksum=True)
    files = {
        "results.parquet": parquet.getvalue(),
        "comparison.csv": csv_of(comparison_table(grid)),
        "benchmark_results.json": to_json(benchmark_json(records, grid, run)).encode(),
        "comparison.txt": full_text(records, grid).encode(),
        **finding_files(comparison),
        "report.html": report_html(records, grid, run).encode(),
    }
    for name, content in files.items():
        write_whole(folder / name, content)
    for name, draw in _pictures(records, grid, f"{run.suite}, {run.run}").items():
        try:
            content = draw()
        except Exception as error:  # Altair and Vega raise anything
            LOG.warning("%s could not be drawn: %s", name, str(error).partition("\n")[0][:300])
            content = b""
        if content:
            write_whole(folder / name, content)
        else:
            (folder / name).unlink(missing_ok=True)  # of an earlier report
    return folder / "report.html"


def _pictures(records: Sequence[Record], grid: Grid, title: str) -> dict[str, Callable[[], bytes]]:
    comparison, scaling = grid.comparison, f"{title}: scaling"
    pictures = {
        "time_by_size.png": lambda: time_by_size_png(grid, title),
        "speedup.png": lambda: speedup_png(grid, title),
        "models.png": lambda: models_png(records, grid, title),
    }
    if comparison.families:
        pictures |= {
            "gpu_benchmark_comparison.png": lambda: gpu_comparison_png(records, comparison, scaling),
            "performance_summary_table.png": lambda: summary_table_png(comparison, scaling),
        }
    return pictures
