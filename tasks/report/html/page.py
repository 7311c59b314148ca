"""One offline HTML file of a run; its security policy forbids requests."""

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup

from tasks.report import page_limits
from tasks.report.charts.cold_start import cold_panels, waterfall_panels
from tasks.report.charts.draw import VEGA_LITE
from tasks.report.charts.heat_map import case_ids, heat_map
from tasks.report.charts.models import model_panels
from tasks.report.charts.monitor import monitor_panels
from tasks.report.charts.overview import is_complete, overview_panel
from tasks.report.charts.panel import ChartPanel
from tasks.report.charts.pareto import cases_left, pareto_panels
from tasks.report.charts.promised import promised_panels
from tasks.report.charts.scaling import scaling_panels
from tasks.report.charts.script import course_panels, room_panels, step_panels
from tasks.report.charts.speedup import COST, speedup_panels
from tasks.report.charts.theme import config, shapes
from tasks.report.charts.time_by_size import time_panels
from tasks.report.charts.training import loss_panels, memory_panels
from tasks.report.grid import Grid
from tasks.report.html import records_table, tables
from tasks.report.html.templates import TEMPLATES, environment, style
from tasks.report.info import RunInfo
from tasks.report.models import device_times, model_rows
from tasks.report.page_limits import MOST_BARS, MOST_GROUPS, MOST_ROWS, MOST_SENTENCES, firsts, readable
from tasks.report.scaling_rows import family_tables
from tasks.results.format import cases_text, format_ratio
from tasks.results.summaries import COLD_PHASES
from tasks.results.values import Estimate
from tasks.results.wording import WIDE_MARK, totals_text, verdict_text
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text
from workloads.harness.records.finite_json import to_json
from workloads.harness.records.places import user_cache
from workloads.harness.records.record import SCHEMA, Grade, Record

SCRIPTS = ("charts.js", "map.js", "records.js")
MOST_TABLES = 60  # tables of scaling and of models, rows of device times


def report_html(records: Sequence[Record], grid: Grid, run: RunInfo) -> str:
    """Escape external text in HTML and scripts."""
    comparison, panels = grid.comparison, _panels(records, grid)
    totals = comparison.totals
    scripts = {
        "bundle": bundle(),
        "script": "".join((TEMPLATES / name).read_text("utf-8") for name in SCRIPTS),
    }
    # A content security policy for these scripts and no request.
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts.values())
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return environment().get_template("report.html.j2").render(
        run=asdict(run),
        heading=run.heading,
        schema=SCHEMA,
        comparison=comparison,
        counts=_counts(grid),
        total_cases=cases_text(totals[0].cases, totals[0].measured) if totals else "",
        of_totals=totals_text(totals),
        example={"interval": format_ratio(Estimate(27.2, 26.1, 28.4)), "single": format_ratio(Estimate(1.8))},
        panels=panels,
        phases=[name.replace("_", " ") for name in COLD_PHASES],
        shapes=shapes(len(grid.names)),
        columns=records_table.COLUMNS,
        records_total=len(records),
        many_cells=page_limits.MOST_DETAILED,
        wide_mark=WIDE_MARK,
        data=_data(grid, records, panels),
        style=style(),
        policy=f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:",
        **_tables(records, grid),
        **_sentences(grid),
        **{name: Markup(text) for name, text in scripts.items()},
    )  # fmt: skip


def _panels(records: Sequence[Record], grid: Grid) -> dict[str, list[ChartPanel]]:
    drawn = readable(grid)
    return {
        "overview": [panel] if (panel := overview_panel(grid)) else [],
        "pareto": pareto_panels(grid),
        "time": time_panels(drawn),
        "speedup": [] if is_complete(grid) else speedup_panels(drawn, brief=True),
        "cost": speedup_panels(drawn, brief=True, by=COST),
        "waterfall": waterfall_panels(records, grid),
        "cold": cold_panels(records, readable(grid, MOST_BARS // 2)),  # a bar of it is five marks
        "monitor": monitor_panels(records, grid),
        "scaling": scaling_panels(grid)[:MOST_GROUPS],
        "models": model_panels(records, drawn),
        "loss": loss_panels(records, grid),
        "memory": memory_panels(records),
        "promised": promised_panels(grid),
        "room": room_panels(grid),
        "course": course_panels(records, grid),
        "steps": step_panels(records, grid),
    }


def _tables(records: Sequence[Record], grid: Grid) -> dict[str, Any]:
    """Return tables, and as NAME_left the number of rows that only files have."""
    ids = case_ids(grid)
    long: dict[str, Sequence[Any]] = {
        "troubles": tables.trouble_rows(grid, records),
        "families": family_tables(grid.comparison),
        "device_times": device_times(records, grid),
        "models": model_rows(records, grid),
    }
    limited: dict[str, Any] = {}
    for name, rows in long.items():
        most = MOST_ROWS if name == "troubles" else MOST_TABLES
        limited[name], limited[f"{name}_left"] = firsts(rows, most)
    return limited | {
        "map": heat_map(grid, ids),
        "machines": tables.machine_rows(grid),
        "passes": tables.money_passes(grid),
        "groups": tables.comparison_groups(grid, ids),
        "detailed": min(tables.detailed_cases(grid), len(ids)),
        "findings": defaultdict(list, tables.finding_sections(grid)),
        "cases_left": cases_left(grid),
        "records": records_table.record_rows(grid, records),
        "environments": records_table.environments(records),
    }


def _sentences(grid: Grid) -> dict[str, Any]:
    comparison = grid.comparison
    sentences: dict[str, Any] = {"undrawn": page_limits.undrawn(grid), "answer": comparison.answer}
    for name, values in (
        ("observations", (*comparison.details, *comparison.observations)),
        ("caveats", comparison.caveats),
        ("unpaired", comparison.unpaired),
    ):
        sentences[name], sentences[f"{name}_left"] = firsts(values, MOST_SENTENCES)
    return sentences


def _data(grid: Grid, records: Sequence[Record], panels: dict[str, list[ChartPanel]]) -> Markup:
    """Return JSON that cannot end its element."""
    page = {"font": 'system-ui, "Segoe UI", Roboto, sans-serif', "background": "transparent"}
    values = {
        "themes": {name: config(dark) | page for name, dark in (("light", False), ("dark", True))},
        "charts": {f"{kind}-{i}": p.spec() for kind, group in panels.items() for i, p in enumerate(group)},
        "records": records_table.record_details(grid, records),
        "environments": records_table.fingerprints(records),
    }
    text = to_json(values, separators=(",", ":"), ensure_ascii=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def _counts(grid: Grid) -> dict[str, Any]:
    summaries = grid.comparison.summaries
    troubles = Counter(verdict_text(summary.verdict) for summary in grid.troubled)
    return {
        "cells": len(summaries),
        "ok": sum(1 for summary in summaries if summary.ok_repeats),
        "wide": sum(1 for summary in summaries if summary.grade is Grade.WIDE),
        "troubles": troubles.most_common(),
        "single": sum(1 for summary in summaries if summary.ok_repeats == 1),
    }


def bundle_file() -> Path:
    """Return the user's cached file, named after its versions."""
    return user_cache() / f"vega-lite-{VEGA_LITE}-by-vl-convert-{version('vl-convert-python')}.js"


@cache
def bundle() -> str:
    """Return the script that draws charts.

    Raises:
        ValueError: the script contains `</script`.
    """
    path, script = bundle_file(), ""
    with suppress(OSError, ValueError):
        script = path.read_text(encoding="utf-8")
    if not script:
        script = str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))  # type: ignore[call-arg]
        with suppress(WorkloadsError):
            write_text(path, script)
    if "</script" in script.lower():
        raise ValueError("vl-convert's bundle would end its script element; install another version of it")
    return script
