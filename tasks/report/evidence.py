"""The evidence under the numbers: a row a record with its samples, and how the environments differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.analysis.digits import format_seconds
from tasks.report.grid import Grid, size_text
from tasks.report.words import bytes_text, few, rate_text, verdict_text
from workloads.harness.record import Record, Timing

MOST_RECORDS = 1_000
MOST_NUMBERS = 60_000
"""Records and raw samples on a page below 5 MB; all are in the files beside it, and the page says so."""

COLUMNS = (
    "Hardware", "Workload", "Size", "Precision", "Repeat", "Verdict", "Time per step", "95 % interval",
    "End to end", "Rate", "Peak memory", "Whole process", "Started",
)  # fmt: skip


def record_rows(grid: Grid, records: Sequence[Record]) -> list[dict[str, Any]]:
    """The rows of the records table: the text of each cell, and what it sorts by."""
    return [_row(grid, record) for record in records[:MOST_RECORDS]]


def record_details(grid: Grid, records: Sequence[Record]) -> list[dict[str, Any]]:
    """What a row unfolds to: samples, phases, probes; six digits each, thinned where there are very many."""
    shown = records[:MOST_RECORDS]
    most = max(10, MOST_NUMBERS // max(len(shown), 1))
    return [_detail(record, most, _standing(grid, record)[1]) for record in shown]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A fingerprint as one level of text, nested keys joined by dots."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        elif value is not None:
            found[f"{prefix}{key}"] = str(value)
    return found


def environments(records: Sequence[Record]) -> dict[str, Any]:
    """The fingerprints of the run side by side: rows that differ between them, and rows that don't."""
    prints: dict[str, dict[str, str]] = {}
    hosts: dict[str, dict[str, None]] = {}
    for record in records:
        if record.environment:
            prints.setdefault(record.environment_id, flat(record.environment))
            hosts.setdefault(record.environment_id, {})[record.hardware] = None
    keys = dict.fromkeys(key for values in prints.values() for key in values)
    rows = [(key, [values.get(key, "–") for values in prints.values()]) for key in keys]
    return {
        "columns": [{"id": name, "hardware": ", ".join(hosts[name])} for name in prints],
        "different": [row for row in rows if len(set(row[1])) > 1],
        "same": [(key, values[0]) for key, values in rows if len(set(values)) == 1],
    }


def _row(grid: Grid, record: Record) -> dict[str, Any]:
    verdict, reasons = _standing(grid, record)
    timing, memory, case = record.device_time or record.wall, record.memory, record.case
    peak = (memory.device_allocated_bytes or memory.peak_rss_bytes) if memory else None
    rate = _rate(record)
    cells: list[tuple[str, float | str | None]] = [
        (record.hardware, None), (case.workload, None), (size_text(case), _size_order(grid, record)),
        (case.precision, None), (str(record.repeat), record.repeat), (verdict, None),
        (format_seconds(record.compute_s), record.compute_s),
        (_bounds(timing), timing.ci_low_s if timing else None),
        (format_seconds(record.end_to_end_s), record.end_to_end_s), (rate[0], rate[1]),
        (bytes_text(peak), peak), (format_seconds(record.wall_s or None), record.wall_s),
        (record.started_at[:19].replace("T", " "), record.started_at),
    ]  # fmt: skip
    return {"cells": [(text, _order(key)) for text, key in cells], "ok": verdict == "ok", "reasons": reasons}


def _order(key: float | str | None) -> float | str | None:
    """What a cell sorts by, in six digits where it is a number."""
    return _short(key) if isinstance(key, float) else key


def _standing(grid: Grid, record: Record) -> tuple[str, Sequence[str]]:
    """The record's own verdict; where that is ok and its cell was refused later, the refusal."""
    summary = grid.summaries.get((record.hardware, record.case))
    if record.ok and summary is not None and not summary.ok_repeats:
        return verdict_text(summary.verdict), summary.reasons
    return verdict_text(record.verdict), record.reasons


def _size_order(grid: Grid, record: Record) -> float | None:
    works = (group.work for group in grid.groups if record.case in group.work)
    return next((work[record.case] for work in works), None)


def _rate(record: Record) -> tuple[str, float | None]:
    seconds, work = record.compute_s, record.work
    if not seconds or work is None:
        return "–", None
    if work.flops:
        return rate_text(work.flops / seconds, "FLOP/s"), work.flops / seconds
    return rate_text(work.units / seconds, f"{work.unit}/s"), work.units / seconds


def _bounds(timing: Timing | None) -> str:
    if timing is None or timing.ci_low_s is None or timing.ci_high_s is None:
        return "–"
    return f"{format_seconds(timing.ci_low_s)} – {format_seconds(timing.ci_high_s)}"


def _detail(record: Record, most: int, reasons: Sequence[str]) -> dict[str, Any]:
    timing = record.device_time or record.wall
    samples = timing.samples_s if timing else ()
    return {
        "samples": [_short(sample) for sample in samples[:most]],
        "total": len(samples),
        "block": timing.block if timing else 1,
        "clock": "device events" if record.device_time else "host clock",
        "reasons": few(reasons),
        "phases": {name: _short(seconds) for name, seconds in record.phases_s.items()}
        | {"unattributed": _short(record.unattributed_s)},
        "facts": _facts(record),
        "probes": {name: _short(value) for name, value in record.probes.items()},
        "missing": record.missing,
        "environment": record.environment_id,
    }


def _facts(record: Record) -> dict[str, str]:
    check, timing = record.check, record.device_time or record.wall
    facts = {
        "device": record.device,
        "threads": record.threads,
        "layout": record.layout,
        "order in the lane": record.order,
        "seed": record.seed,
        "check": f"relative error {check.error:.2g}, bound {check.bound:.2g}" if check else None,
        "outliers": f"{timing.outliers_mild} mild, {timing.outliers_severe} severe" if timing else None,
        "steady": timing.steady if timing else None,
        "precision reached": timing.precision_reached if timing else None,
        "energy": f"{record.energy_j:.4g} J" if record.energy_j is not None else None,
    }
    return {name: _plain(value) for name, value in facts.items() if value is not None}


def _plain(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _short(value: float) -> float:
    return float(f"{value:.6g}")
