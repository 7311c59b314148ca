"""PNG files: time by size, speedup, models."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.report import page_limits
from tasks.report.charts.draw import png_of
from tasks.report.charts.models import model_panels
from tasks.report.charts.panel import OFF, ChartPanel, chart_of, machine_colour, machine_shape, part_of
from tasks.report.charts.speedup import speedup_panels
from tasks.report.charts.theme import config
from tasks.report.charts.time_by_size import time_panels
from tasks.report.grid import Grid
from tasks.results.wording import trouble_text
from workloads.harness.records.record import Record

_MOST_NOTES = 8
_NOTE_LENGTH = 140
_WIDTH = 340


def time_by_size_png(grid: Grid, title: str) -> bytes:
    what = "Time per step with the data in place. Bars are 95 % intervals. Hollow points have one repeat."
    return _png(grid, time_panels(page_limits.readable(grid)), f"{title}: time by size", what, grid.names)


def speedup_png(grid: Grid, title: str) -> bytes:
    baseline = grid.comparison.baseline
    what = f"Over {baseline}, with 95 % intervals. Right of the line is faster. Pale bars are undecided."
    others = [name for name in grid.names if name != baseline]
    return _png(grid, speedup_panels(page_limits.readable(grid)), f"{title}: compute speedup", what, others)


def models_png(records: Sequence[Record], grid: Grid, title: str) -> bytes:
    """Return empty without models."""
    panels = model_panels(records, page_limits.readable(grid))
    what = "Time with the data in place. Bars are means of repeats, points are repeats."
    return _png(grid, panels, f"{title}: models", what, grid.names) if panels else b""


def png_frame() -> dict[str, Any]:
    """Return a picture's top-level keys."""
    return {"config": config(font="Liberation Sans, Arial, sans-serif"), "padding": 18}


def undrawn(grid: Grid) -> list[str]:
    """Return refused cells with reasons, and the number of further ones."""
    texts = (f"{summary.cell.id}: {trouble_text(summary)}" for summary in grid.troubled)
    lines = [text if len(text) <= _NOTE_LENGTH else f"{text[: _NOTE_LENGTH - 1]}…" for text in texts]
    more = len(lines) - _MOST_NOTES
    return [*lines[:_MOST_NOTES], f"and {more} more, listed in report.html"] if more > 0 else lines


def _png(grid: Grid, panels: list[ChartPanel], title: str, what: str, names: list[str]) -> bytes:
    """Draw without Altair, which would copy every part at each step."""
    if panels:
        columns = 3 if len(panels) == 3 or len(panels) > 4 else 2
        parts = [part_of(panel.chart) | {"width": _WIDTH, "title": panel.title} for panel in panels]
        charts = {"concat": parts, "columns": columns, "spacing": 28}
        inner: dict[str, Any] = {"vconcat": [part_of(_key(grid, names)), charts], "spacing": 18}
    else:
        inner = _nothing(grid)
    subtitle = [text for text in (what, page_limits.undrawn(grid)) if text and panels]
    sizes = {"fontSize": 18, "subtitleFontSize": 12, "offset": 14}
    inner["title"] = {"text": title, "subtitle": subtitle, **sizes}
    spec: dict[str, Any] = {"vconcat": [inner]}
    if notes := undrawn(grid):
        quiet = {"fontSize": 11, "fontWeight": "normal", "color": "#525a64", "anchor": "start"}
        lines = ["Not drawn, because refused:", *notes]
        spec["title"] = {"text": lines, "orient": "bottom", "offset": 16, **quiet}
    return png_of(spec | {"params": [OFF], **png_frame()}, scale=2 if len(panels) <= 6 else 1)


def _key(grid: Grid, names: list[str]) -> alt.LayerChart | alt.FacetChart:
    places = [sum(len(name) + 6 for name in names[:i]) for i in range(len(names) + 1)]
    rows = [{"hardware": name, "x": index} for name, index in zip(names, places, strict=False)]
    base = (
        chart_of(rows)
        .properties(height=16, width=7 * places[-1])
        .encode(x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, max(places[-1], 1)], nice=False)))
    )
    return alt.layer(
        base.mark_point(filled=True, size=90, opacity=1).encode(
            color=machine_colour(grid), shape=machine_shape(grid)
        ),
        base.mark_text(align="left", dx=10, fontSize=12).encode(text=alt.Text("hardware:N")),
    )


def _nothing(grid: Grid) -> dict[str, Any]:
    any_ok = any(summary.ok_repeats for summary in grid.comparison.summaries)
    statements = "no cell has a ratio" if any_ok else "no cell of this run counts"
    words = chart_of([{"words": f"There is nothing to draw, because {statements}."}]).properties(
        width=700, height=140
    )
    return part_of(words.mark_text(fontSize=18, style="quiet").encode(text=alt.Text("words:N")))
