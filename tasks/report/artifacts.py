"""The artifacts of a comparison in the Prefect UI, by stage."""

import base64
from collections.abc import Iterable
from pathlib import Path

from tasks.report.scaling_rows import level_row
from tasks.results.comparison import Comparison
from tasks.results.format import format_percent, format_ratio, format_seconds
from tasks.results.model import Pairing
from tasks.results.table import cell_text
from tasks.results.values import Ratio
from tasks.results.wording import few, verdict_text
from workloads.harness.records.record import Grade

MOST_ROWS = 500  # of an artifact, because the UI draws all of them at once; comparison.csv has every row
MOST_BYTES = 1_000_000  # of a picture, which the server stores in its database
PICTURES = {
    "speedup.png": "Speedup of each case over the baseline",
    "time_by_size.png": "Time of each case by size",
    "models.png": "Models: time and memory",
    "gpu_benchmark_comparison.png": "Scaling with the number of processes",
    "performance_summary_table.png": "Scaling, as a table",
}

Row = dict[str, str]


def stage_tables(comparison: Comparison) -> dict[str, tuple[str, list[Row]]]:
    """Return description and rows by artifact key, without empty stages."""
    title = f"Time, and speedup over {comparison.baseline} (above 1× is faster)"
    stages = {"bench-speedups": (title, list(speedup_rows(comparison)))}
    for finding in comparison.findings:
        if table := finding.table():
            places = table.filled(table.rows)
            columns = [table.columns[i] for i in places]
            texts = ([cell_text(row[i], table.columns[i].quantity) for i in places] for row in table.rows)
            rows = [dict(zip((column.title for column in columns), row, strict=True)) for row in texts]
            stages[finding.artifact or f"bench-{finding.name}"] = (finding.title, rows)
    title = "Scaling of each case with the number of processes"
    stages["bench-scaling"] = (title, list(scaling_rows(comparison)))
    stages["bench-refused"] = ("Refused results with their reasons", list(refused_rows(comparison)))
    tables = {}
    for key, (title, rows) in stages.items():
        more = f" {len(rows) - MOST_ROWS} more rows are in comparison.csv." if len(rows) > MOST_ROWS else ""
        if rows:
            tables[key] = f"{title}.{more}", rows[:MOST_ROWS]
    return tables


def picture_urls(folder: Path) -> dict[str, tuple[str, str]]:
    """Return description and data URL by artifact key."""
    shown = {}
    for name, description in PICTURES.items():
        path = folder / name
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            url = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
            shown[f"bench-picture-{path.stem.replace('_', '-')}"] = f"{description}.", url
    return shown


def speedup_rows(comparison: Comparison) -> Iterable[Row]:
    pairings = {(pairing.hardware, pairing.case): pairing for pairing in comparison.pairings}
    for summary in comparison.summaries:
        if summary.compute_s:
            pairing = pairings.get((summary.cell.hardware, summary.cell.case))
            compute = pairing.compute if pairing else None
            is_baseline = summary.cell.hardware == comparison.baseline
            why = summary.why[0] if summary.why else verdict_text(summary.verdict)
            yield {
                "cell": summary.cell.id,
                "time": format_seconds(summary.compute_s),
                "repeats": f"{summary.ok_repeats} of {summary.repeats}",
                "speedup": _ratio(compute),
                "end to end": _ratio(pairing.end_to_end if pairing else None),
                "verdict": "baseline" if is_baseline else str(compute.outcome) if compute else "no ratio",
                "grade": f"{summary.grade}: {why}" if summary.grade is Grade.WIDE else str(summary.grade),
                "note": _note(pairing),
            }


def scaling_rows(comparison: Comparison) -> Iterable[Row]:
    """Yield numbers of processes, and machines with several devices."""
    for family in comparison.families:
        for level in family.levels:
            shown = level_row(level)
            yield {
                "what": f"{family.hardware}: {family.title}",
                "kind": family.scaling,
                "devices": str(shown["processes"]),
                "time": str(shown["time"]),
                "speedup": str(shown["speedup"]),
                "efficiency": str(shown["efficiency"]),
                "band": str(shown["band"]),
                "note": "; ".join(shown["why"]),
            }
    for pairing in comparison.pairings:
        if pairing.efficiency and pairing.compute:
            yield {
                "what": f"{pairing.hardware}: {pairing.case.id}",
                "kind": pairing.scaling,
                "devices": f"compared with {pairing.baseline}",
                "time": "",
                "speedup": _ratio(pairing.compute),
                "efficiency": format_percent(pairing.efficiency),
                "band": pairing.efficiency_band,
                "note": "",
            }


def refused_rows(comparison: Comparison) -> Iterable[Row]:
    """Yield cells with refused repeats, then refused ratios."""
    for summary in comparison.summaries:
        if not summary.complete:
            yield {
                "what": summary.cell.id,
                "verdict": verdict_text(summary.verdict) if not summary.ok_repeats else "in part",
                "repeats that count": f"{summary.ok_repeats} of {summary.repeats}",
                "why": "; ".join(few(summary.reasons)) or "no recorded reason",
            }
    counted = {(s.cell.hardware, s.cell.case) for s in comparison.summaries if s.ok_repeats}
    for pairing in comparison.pairings:
        if pairing.refused and (pairing.hardware, pairing.case) in counted:
            what = f"{pairing.hardware} over {pairing.baseline}: {pairing.case.id}"
            yield {"what": what, "verdict": "no ratio", "repeats that count": "", "why": pairing.refused}


def _ratio(ratio: Ratio | None) -> str:
    return format_ratio(ratio) if ratio else ""


def _note(pairing: Pairing | None) -> str:
    if pairing is None:
        return ""
    why = pairing.compute.why if pairing.compute else ""
    confounded = f"confounded by {', '.join(pairing.confounds)}" if pairing.confounds else ""
    return "; ".join(filter(None, (pairing.refused, why, confounded)))
