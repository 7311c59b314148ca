"""Records and samples, and differences between environments."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.findings.bottleneck import bound_text
from tasks.report.charts.monitor import MEMORY, POWER, UTILISATION, series
from tasks.report.grid import Grid
from tasks.results.format import format_seconds
from tasks.results.repeats import standing, standing_grade
from tasks.results.wording import bytes_text, few, graded_text, size_text
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Grade, Record
from workloads.harness.records.text import (
    cache_text,
    file_facts,
    rare_facts,
    rate_text,
    script_facts,
    script_step,
    step_s,
    step_text,
)
from workloads.harness.roofline.roofline import percent

# Records, raw samples and monitor samples of a page below 5 MB. results.parquet has all of them.
MOST_RECORDS, MOST_NUMBERS, MOST_WATCHED = 800, 40_000, 20_000
FEWEST_WATCHED = 10  # points of a line

COLUMNS = (
    "Hardware", "Workload", "Size", "Precision", "Repeat", "Verdict", "Time per step", "95 % interval",
    "End to end", "Rate", "Bound by", "Of measured peak", "Peak memory", "Whole process", "Started",
)  # fmt: skip


def record_rows(grid: Grid, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return text and sort key by row and cell."""
    works = {case: work for group in grid.groups for case, work in group.work.items()}
    return [_row(grid, record, works.get(record.case)) for record in records[:MOST_RECORDS]]


def record_details(grid: Grid, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return samples, phases and probes, thinned if many."""
    shown = records[:MOST_RECORDS]
    most = max(10, MOST_NUMBERS // max(len(shown), 1))
    points = min(100, MOST_WATCHED // max(3 * len(shown), 1))
    return [
        _detail(record, most, _standing(grid, record)[1]) | {"watched": _watched(record, points)}
        for record in shown
    ]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Join nested keys by dots."""
    matches: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            matches |= flat(value, f"{prefix}{key}.")
        elif value is not None:
            matches[f"{prefix}{key}"] = str(value)
    return matches


def environments(records: Sequence[Record]) -> dict[str, Any]:
    """Return facts that differ between environments, and the others."""
    prints: dict[str, dict[str, str]] = {}
    hosts: dict[str, dict[str, None]] = {}
    for record in records:
        if record.environment:
            if record.environment_id not in prints:
                prints[record.environment_id] = flat(record.environment)
            hosts.setdefault(record.environment_id, {})[record.hardware] = None
    keys = dict.fromkeys(key for values in prints.values() for key in values)
    rows = [(key, [values.get(key, "–") for values in prints.values()]) for key in keys]
    return {
        "columns": [{"id": name, "hardware": ", ".join(hosts[name])} for name in prints],
        "different": [row for row in rows if len(set(row[1])) > 1],
        "same": [(key, values[0]) for key, values in rows if len(set(values)) == 1],
    }


def fingerprints(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    matches = {record.environment_id: record.environment for record in records}
    return {name: flat(environment) for name, environment in matches.items()}


def _row(grid: Grid, record: Record, work: float | None) -> dict[str, Any]:
    grade, (verdict, reasons) = standing_grade(record, grid.comparison.refusals), _standing(grid, record)
    timing, memory, case = record.device_time or record.wall, record.memory, record.case
    peak = (memory.device_allocated_bytes or memory.peak_rss_bytes) if memory else None
    a_job = " per job" if record.wall and record.wall.whole else ""
    interval = "–"
    if timing and timing.ci_low_s is not None and timing.ci_high_s is not None:
        interval = f"{format_seconds(timing.ci_low_s)} – {format_seconds(timing.ci_high_s)}"
    cells: list[tuple[str, float | str | None]] = [
        (record.hardware, None), (case.workload, None), (size_text(case), work),
        (case.terms, None), (str(record.repeat), record.repeat), (verdict, None),
        (step_text(record, format_seconds) + a_job, step_s(record)),
        (interval, timing.ci_low_s if timing else None),
        (format_seconds(record.end_to_end_s), record.end_to_end_s), _rate(record),
        *_bound_cells(grid, record),
        (bytes_text(peak), peak), (format_seconds(record.wall_s or None), record.wall_s),
        (record.started_at[:19].replace("T", " "), record.started_at),
    ]  # fmt: skip
    texts = [(text, _short(key) if isinstance(key, float) else key) for text, key in cells]
    return {"cells": texts, "ok": grade is not Grade.REFUSED, "reasons": reasons}


def _bound_cells(grid: Grid, record: Record) -> list[tuple[str, float | str | None]]:
    summary = grid.summaries.get((record.hardware, record.case))
    if not counts(record) or summary is None or summary.bound is None:
        return [("–", None), ("–", None)]
    share = summary.bound.shares.get("compute")
    return [(bound_text(summary.bound), None), ("–" if share is None else percent(share), share)]


def _standing(grid: Grid, record: Record) -> tuple[str, Sequence[str]]:
    """Return its verdict, or the later refusal of a record that counted."""
    verdict, reasons = standing(record, grid.comparison.refusals)
    return graded_text(verdict, standing_grade(record, grid.comparison.refusals)), reasons


def _rate(record: Record) -> tuple[str, float | None]:
    seconds, work = record.mean_s, record.work
    if not seconds or work is None:
        return "–", None
    if work.flops:
        return rate_text(work.flops / seconds, "FLOP/s"), work.flops / seconds
    return rate_text(work.units / seconds, f"{work.unit}/s"), work.units / seconds


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


def _watched(record: Record, points: int) -> dict[str, list[float]]:
    """Return samples at even distances; empty if the page has no room."""
    if points < FEWEST_WATCHED:
        return {}
    matches = {}
    for quantity in (UTILISATION, MEMORY, POWER):
        values = [value for _, value in series(record, quantity)]
        if len(values) > 1:
            stride = math.ceil(len(values) / points)
            matches[quantity] = [float(f"{value:.4g}") for value in values[::stride]]
    return matches


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
        "cache": cache_text(record.cache) if record.cache else None,
        **dict(rare_facts(record)),
        **_script_facts(record),
    }
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in facts.items()
        if value is not None
    }


def _script_facts(record: Record) -> dict[str, str | None]:
    script = record.script
    if script is None:
        return {}
    if script.program:
        return {
            "command": " ".join(script.command),
            "code": f"{script.code}{', with uncommitted changes' if script.dirty else ''}" or None,
            "exit code": None if script.exit_code is None else str(script.exit_code),
            "installed packages": ", ".join(script.installed_packages) or None,
            **_joined(script_facts(script)),
        }
    end = "finished" if script.ended == "finished" else "stopped"
    return {
        "script": " ".join(script.command),
        "code": f"{script.code}{', with uncommitted changes' if script.dirty else ''}" or None,
        "a step": f"{script_step(script)}; {script.steps:,} seen, then {end}",
        "unknown": "; ".join(script.doubts) or None,
        "installed packages": ", ".join(script.installed_packages) or None,
        **(dict(file_facts(script.files)) if script.files else {}),
    }


def _joined(rows: Sequence[tuple[str, str]]) -> dict[str, str | None]:
    texts: dict[str, list[str]] = {}
    for name, text in rows:
        texts.setdefault(name, []).append(text)
    return {name: " | ".join(of_name) for name, of_name in texts.items()}


def _short(value: float) -> float:
    return float(f"{value:.6g}")
