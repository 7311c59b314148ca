"""Speedup by number of processes, with the ideal line."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.report.charts.panel import (
    ChartPanel,
    chart_of,
    error_bars,
    extent,
    fields,
    log_axis,
    machine_colour,
    machine_shape,
    shown,
    tooltip,
)
from tasks.report.charts.theme import TIMES_LABEL, padded
from tasks.report.grid import Grid
from tasks.results.format import format_percent, format_ratio
from tasks.results.model import Family


def scaling_panels(grid: Grid) -> list[ChartPanel]:
    """Return a panel per kind of scaling."""
    alike: dict[str, list[Family]] = {}
    for family in grid.comparison.families:
        alike.setdefault(f"{family.title}, {family.scaling}".rstrip(", "), []).append(family)
    panels = ((title, _rows(families)) for title, families in alike.items())
    return [_panel(grid, title, rows) for title, rows in panels if rows]


def _rows(families: Sequence[Family]) -> list[dict[str, Any]]:
    return [
        {
            "hardware": family.hardware,
            "processes": level.processes,
            **fields(level.over_base.estimate),
            "speedup": format_ratio(level.over_base),
            "efficiency": format_percent(level.efficiency),
            "share": format_percent(level.efficiency).partition(" (")[0] if level.efficiency else "",
            "band": "impossible" if level.impossible else level.band,
            "sound": not level.impossible and level.over_base.estimate.low is not None,
        }
        for family in families
        for level in family.levels
        if level.over_base is not None and level.grouped
    ]


def _panel(grid: Grid, title: str, rows: list[dict[str, Any]]) -> ChartPanel:
    counts = sorted({row["processes"] for row in rows})
    most = max(2, *counts)
    ticks = sorted({float(count) for count in (1, *counts) if count >= 1})
    x = log_axis(alt.X("processes:Q"), (0.88, 1.1 * most**1.25), "datum.value", "processes", ticks)
    y = log_axis(alt.Y("value:Q"), padded([*extent(rows), 1.0, float(most)], 1.15), TIMES_LABEL, "speedup")
    base = chart_of(rows).encode(
        x=x,
        y=y,
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "processes", "speedup", "efficiency", "band"),
    )
    shape = machine_shape(grid)
    ends = {"x": alt.XDatum(1), "y": alt.YDatum(1), "x2": alt.X2Datum(most), "y2": alt.Y2Datum(most)}
    chart = alt.layer(
        chart_of([{}]).mark_rule(strokeDash=[5, 4], strokeWidth=1).encode(**ends),
        base.transform_filter("datum.band != 'impossible'").mark_line(strokeWidth=1.5, strokeOpacity=0.6),
        error_bars(base),
        base.transform_filter("datum.sound").mark_point(filled=True, size=75).encode(shape=shape),
        base.transform_filter("!datum.sound").mark_point(filled=False, size=65).encode(shape=shape),
        chart_of(rows)
        .transform_filter("datum.processes > 1")
        .mark_text(align="left", dx=8, dy=8)
        .encode(x=x, y=y, opacity=shown(), text=alt.Text("share:N")),
    )
    description = f"Speedup of {title} by number of processes, on logarithmic axes. The dashed line is ideal."
    return ChartPanel(title, description, chart.properties(height=230))
