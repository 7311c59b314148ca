"""Write a run's files into its folder, each of them whole or not at all."""

import io
from collections.abc import Sequence
from pathlib import Path

from tasks.report.charts.pictures import models_png, speedup_png, time_by_size_png
from tasks.report.charts.scaling_pictures import gpu_comparison_png, summary_table_png
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.comparison_table import comparison_table
from tasks.report.files.csv_cells import csv_of
from tasks.report.files.finding_csv import finding_files
from tasks.report.finite_json import to_json
from tasks.report.html.page import report_html
from tasks.report.info import RunInfo
from tasks.report.text.comparison import full_text
from tasks.results.model import Comparison
from tasks.store.frames import results_table
from workloads.harness.records.files import write_whole
from workloads.harness.records.record import Record


def write_report(folder: Path, records: Sequence[Record], comparison: Comparison, run: RunInfo) -> Path:
    """Write every file that people read, and return the path of `report.html`, which is written last."""
    title = f"{run.suite}, {run.run}"
    parquet = io.BytesIO()
    results_table(records, comparison.refusals).to_parquet(parquet, index=False, write_page_checksum=True)
    results = benchmark_json(records, comparison, run)
    files = {
        "results.parquet": parquet.getvalue(),
        "comparison.csv": csv_of(comparison_table(comparison)),
        "benchmark_results.json": to_json(results).encode(),
        "comparison.txt": full_text(records, comparison).encode(),
        "time_by_size.png": time_by_size_png(records, comparison, title),
        "speedup.png": speedup_png(records, comparison, title),
        **finding_files(comparison),
        **_of_models_and_groups(records, comparison, title),
        "report.html": report_html(records, comparison, run).encode(),
    }
    for name, content in files.items():
        write_whole(folder / name, content)
    return folder / "report.html"


def _of_models_and_groups(records: Sequence[Record], comparison: Comparison, title: str) -> dict[str, bytes]:
    """Pictures that a run has only where it measured a model, or several processes together."""
    models = models_png(records, comparison, title)
    files = {"models.png": models} if models else {}
    if comparison.families:
        files["gpu_benchmark_comparison.png"] = gpu_comparison_png(records, comparison, f"{title}: scaling")
        files["performance_summary_table.png"] = summary_table_png(comparison, f"{title}: scaling")
    return files
