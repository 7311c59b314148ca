"""One HTML file that holds a whole run: it works offline, and its own policy forbids it any request."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from tasks.analysis.digits import format_ratio
from tasks.analysis.model import Comparison, Estimate
from tasks.analysis.summaries import COLD_PHASES
from tasks.report import evidence, views
from tasks.report.charts import Panel
from tasks.report.cold_chart import cold_panels
from tasks.report.grid import Grid, grid_of
from tasks.report.info import RunInfo
from tasks.report.pictures import VEGA_LITE
from tasks.report.speedup_chart import speedup_panels
from tasks.report.theme import config, shapes
from tasks.report.time_chart import time_panels
from tasks.report.words import verdict_text
from workloads.harness.record import Record

_HERE = Path(__file__).parent


def report_html(records: Sequence[Record], comparison: Comparison, run: RunInfo) -> str:
    """Render the report. What comes from outside is escaped, in HTML and in the scripts' data."""
    grid = grid_of(records, comparison)
    panels = {
        "time": time_panels(grid),
        "speedup": speedup_panels(grid, brief=True),
        "cold": cold_panels(records, grid),
    }
    scripts = {"bundle": _bundle(), "script": (_HERE / "report.js").read_text("utf-8")}
    return _environment().get_template("template.html.j2").render(
        run=asdict(run),
        comparison=comparison,
        counts=_counts(grid),
        machines=views.machine_rows(grid),
        passes=views.money_passes(grid),
        example={"interval": format_ratio(Estimate(27.2, 26.1, 28.4)), "single": format_ratio(Estimate(1.8))},
        groups=views.comparison_groups(grid),
        troubles=views.trouble_rows(grid, records),
        panels=panels,
        phases=[name.replace("_", " ") for name in COLD_PHASES],
        shapes=shapes(len(grid.names)),
        columns=evidence.COLUMNS,
        records=evidence.record_rows(grid, records),
        records_total=len(records),
        environments=evidence.environments(records),
        data=_data(grid, records, panels),
        style=Markup((_HERE / "report.css").read_text("utf-8")),
        policy=_policy(scripts.values()),
        **{name: Markup(text) for name, text in scripts.items()},
    )  # fmt: skip


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and vega-embed in one script, 0.9 MB."""
    bundle = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]
    if "</script" in bundle.lower():
        raise ValueError(
            "the bundle of vl-convert would end its own script element; pin another version of it"
        )
    return str(bundle)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters["whole"] = _whole
    return environment


def _whole(sentence: str) -> Markup:
    """A sentence whose names and intervals, such as `aws-g5.8xlarge`, no line break cuts at a hyphen."""
    words = (
        Markup('<span class="whole">{}</span>' if _joined(w) else "{}").format(w) for w in sentence.split()
    )
    return Markup(" ").join(words)


def _joined(word: str) -> bool:
    return len(word) < 32 and ("-" in word or "–" in word)


def _policy(scripts: Any) -> str:
    """A content security policy: only these scripts run, and nothing may be fetched."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _data(grid: Grid, records: Sequence[Record], panels: dict[str, list[Panel]]) -> Markup:
    """What the script reads, as JSON that can't leave its element."""
    page = {"font": 'system-ui, "Segoe UI", Roboto, sans-serif', "background": "transparent"}
    values = {
        "themes": {name: config(dark) | page for name, dark in (("light", False), ("dark", True))},
        "charts": {f"{kind}-{i}": p.spec() for kind, group in panels.items() for i, p in enumerate(group)},
        "records": evidence.record_details(grid, records),
        "environments": {r.environment_id: evidence.flat(r.environment) for r in records},
    }
    text = json.dumps(values, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def _counts(grid: Grid) -> dict[str, Any]:
    summaries = grid.comparison.summaries
    troubles = Counter(verdict_text(summary.verdict) for summary in grid.troubled)
    return {
        "cells": len(summaries),
        "ok": sum(1 for summary in summaries if summary.ok_repeats),
        "troubles": troubles.most_common(),
        "single": sum(1 for summary in summaries if summary.ok_repeats == 1),
    }
