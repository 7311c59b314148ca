"""Write a run's files into its folder, each of them whole or not at all."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

from tasks.analysis.model import Comparison
from tasks.report.boxes import text_tables
from tasks.report.html import report_html
from tasks.report.info import RunInfo
from tasks.report.pictures import speedup_png, time_by_size_png
from tasks.report.results import benchmark_json
from tasks.report.table import comparison_table, results_table
from workloads.harness.files import write_whole
from workloads.harness.record import Record


def write_report(folder: Path, records: Sequence[Record], comparison: Comparison, run: RunInfo) -> Path:
    """Write every file that people read, and return the path of `report.html`, which is written last."""
    title = f"{run.suite}, {run.run}"
    parquet = io.BytesIO()
    results_table(records).to_parquet(parquet, index=False)
    results = benchmark_json(records, comparison, run)
    files = {
        "results.parquet": parquet.getvalue(),
        "comparison.csv": comparison_table(comparison).to_csv(index=False).encode(),
        "benchmark_results.json": json.dumps(results, allow_nan=False).encode(),
        "comparison.txt": text_tables(comparison).encode(),
        "time_by_size.png": time_by_size_png(records, comparison, title),
        "speedup.png": speedup_png(records, comparison, title),
        "report.html": report_html(records, comparison, run).encode(),
    }
    for name, content in files.items():
        write_whole(folder / name, content)
    return folder / "report.html"
