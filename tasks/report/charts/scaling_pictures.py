"""PNG files of scaling: panels by family, and a table."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from tasks.report.charts.draw import png_of, svg_text
from tasks.report.charts.panel import chart_of, error_bars, fields
from tasks.report.charts.pictures import png_frame
from tasks.report.scaling_rows import families_of_interest, family_tables, median_repeat, processes_text
from tasks.results.comparison import Comparison
from tasks.results.format import format_estimate
from tasks.results.model import Family
from tasks.results.speedup import scaled
from tasks.results.values import Estimate
from workloads.harness.records.record import Record

MOST_FAMILIES = 6  # in one picture; benchmark_results.json has all
COLUMNS = {
    "processes": "Processes",
    "time": "Time",
    "throughput": "Throughput",
    "speedup": "Speedup",
    "efficiency": "Efficiency",
    "band": "",
    "serial": "Serial fraction",
    "communication": "Communication",
    "memory": "Memory by rank",
}
_SIZE = {"width": 300, "height": 190}

Rows = list[dict[str, Any]]
Layers = alt.LayerChart | alt.FacetChart  # the type that Altair states for a layer with properties
Part = tuple[str, Sequence[Sequence[str]]]

LINE, PAD, MARGIN = 26, 22, 24  # pixels: height of a row, room between columns, margin of the picture
_ADVANCE = 7.1  # an upper limit of the average width of a character at 13 pixels
_FONT = "font-family='Liberation Sans, Arial, sans-serif' font-size='13'"


def gpu_comparison_png(records: Sequence[Record], comparison: Comparison, title: str) -> bytes:
    families = families_of_interest(comparison)
    shown = [_four(records, family) for family in families[:MOST_FAMILIES]]
    left = len(families) - len(shown)
    more = f". {left} more families are in benchmark_results.json" if left else ""
    what = f"Bars are means of repeats with their 95 % intervals. Pale bars are not used{more}."
    heading = alt.Title(title, subtitle=[what], fontSize=18, subtitleFontSize=12, offset=14)
    spec = alt.vconcat(*shown, spacing=36).properties(title=heading).to_dict(validate=False)
    return png_of(spec | png_frame(), scale=2 if len(shown) < 3 else 1)


def summary_table_png(comparison: Comparison, title: str) -> bytes:
    selected = {(f.title, f.hardware) for f in families_of_interest(comparison)[:MOST_FAMILIES]}
    parts = [
        (
            f"{family['title']} on {family['hardware']}, speedups over {family['base']}",
            [[*COLUMNS.values()], *([row[key] for key in COLUMNS] for row in family["rows"])],
        )
        for family in family_tables(comparison)
        if (family["title"], family["hardware"]) in selected
    ]
    return table_png(title, parts)


def _four(records: Sequence[Record], family: Family) -> alt.ConcatChart:
    what = "job" if family.whole else "step"
    time = [_bar(level, level.step_s, " s") for level in family.levels]
    rate = [_bar(level, level.units_per_s, "") for level in family.levels]
    share = []
    for level in family.levels:
        percent = scaled(level.efficiency, 100) if level.efficiency else None
        share.append(_bar(level, percent, " %") | ({"text": "base"} if level == family.base else {}))
    unit = next((level.unit for level in family.levels if level.unit), "units")
    panels = (
        _bars(time, f"time per {what}, s"),
        _bars(rate, f"total throughput, {unit}/s"),
        _memory(records, family),
        _bars(share, "efficiency, %", 100.0),
    )
    name = f"{family.title} on {family.hardware}, {family.scaling} scaling"
    return alt.concat(*panels, columns=2, spacing=24).properties(title=alt.Title(name, fontSize=14))


def _bar(level: Any, estimate: Estimate | None, unit: str) -> dict[str, Any]:
    return {
        "processes": processes_text(level),
        **fields(estimate),
        "text": format_estimate(estimate, unit).partition(" (")[0] if estimate else str(level.verdict),
        "pale": bool(level.impossible),
    }


def _bars(rows: Rows, title: str, ideal: float | None = None) -> Layers:
    x = alt.X("processes:N", sort=[row["processes"] for row in rows], axis=alt.Axis(labelAngle=0))
    base = chart_of(rows).encode(x=x.title("processes"))
    top = max([row["high"] or row["value"] or 0.0 for row in rows] + [ideal or 0.0]) or 1.0
    scale = alt.Scale(domain=[0, 1.15 * top], nice=False)
    y = alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
    opacity = alt.condition("datum.pale", alt.value(0.25), alt.value(0.85))
    layers = [
        base.transform_filter("isValid(datum.value)").mark_bar(size=26).encode(y=y, fillOpacity=opacity),
        error_bars(base),
        base.transform_filter("isValid(datum.value)").mark_text(dy=-9).encode(y=y, text=alt.Text("text:N")),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(dy=-6, style="quiet")
        .encode(y=alt.YDatum(0), text=alt.Text("text:N")),
    ]
    if ideal:
        layers.append(chart_of([{}]).mark_rule(strokeDash=[5, 4]).encode(y=alt.YDatum(ideal)))
    return alt.layer(*layers).properties(**_SIZE)


def _memory(records: Sequence[Record], family: Family) -> Layers:
    rows: Rows = []
    for level in family.levels:
        record = median_repeat(records, level)
        for at in record.training.memory if record and record.training else ():
            if at.allocated_bytes > 0:
                of = {"processes": processes_text(level), "rank": at.rank, "step": at.step}
                rows.append(of | {"gib": at.allocated_bytes / 2**30})
    names = [processes_text(level) for level in family.levels]
    colour = alt.Color("processes:N", scale=alt.Scale(domain=names), legend=alt.Legend(title="processes"))
    y = alt.Y("gib:Q", title="memory per rank, GiB", axis=alt.Axis(tickCount=5))
    if rows:
        chart = chart_of(rows).mark_line(strokeWidth=1.3, point=alt.OverlayMarkDef(size=12))
        x = alt.X("step:Q", axis=alt.Axis(tickCount=6))
        lines = chart.encode(x=x, y=y, detail=alt.Detail("rank:N"), color=colour)
        return alt.layer(lines).properties(**_SIZE)
    peaks = [
        {"processes": processes_text(level), "rank": rank, "gib": held / 2**30}
        for level in family.levels
        for rank, held in enumerate(level.memory_bytes)
        if held
    ]
    x = alt.X("processes:N", sort=names, axis=alt.Axis(labelAngle=0))
    chart = chart_of(peaks).mark_point(filled=True, size=60)
    high = alt.Y("gib:Q", title="peak memory per rank, GiB", scale=alt.Scale(zero=True))
    return alt.layer(chart.encode(x=x, y=high)).properties(**_SIZE)


def table_png(title: str, parts: Sequence[Part]) -> bytes:
    """Draw a heading and rows for each part, the header first."""
    return bytes(vl_convert.svg_to_png(table_svg(title, parts), scale=2))


def table_svg(title: str, parts: Sequence[Part]) -> str:
    y, width = MARGIN + 20, max([_width(title, 19)] + [_width(heading, 14) for heading, _ in parts])
    big = _FONT.replace("13", "18")
    matches = [f"<text x='{MARGIN}' y='{y}' {big} font-weight='600'>{svg_text(title)}</text>"]
    for heading, rows in parts:
        y += 40
        matches.append(f"<text x='{MARGIN}' y='{y}' {_FONT} font-weight='600'>{svg_text(heading)}</text>")
        widths = [max(_width(row[i]) for row in rows) + PAD for i in range(len(rows[0]))]
        width = max(width, sum(widths))
        for index, row in enumerate(rows):
            y += LINE
            style = "fill='#1c2127'" if index else "fill='#525a64' font-weight='600'"
            for i, text in enumerate(row):
                x = MARGIN + sum(widths[:i])
                matches.append(f"<text x='{x:.0f}' y='{y}' {_FONT} {style}>{svg_text(text)}</text>")
            line = f"M{MARGIN} {y + 8}h{sum(widths):.0f}"
            matches.append(f"<path d='{line}' stroke='{'#dfe2e6' if index else '#525a64'}'/>")
    size = f"width='{width + 2 * MARGIN:.0f}' height='{y + MARGIN + 10}'"
    paper = "<rect width='100%' height='100%' fill='#ffffff'/>"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{paper}{''.join(matches)}</svg>"


def _width(text: str, size: int = 13) -> float:
    return len(text) * _ADVANCE * size / 13
