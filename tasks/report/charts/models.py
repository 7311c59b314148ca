"""Models by machine, and their repeats."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.report.charts.panel import (
    ChartPanel,
    bar_axis,
    bar_names,
    chart_of,
    machine_colour,
    panel_of,
    shown,
    tooltip,
)
from tasks.report.grid import CaseGroup, Grid
from tasks.report.models import Cells, model_groups
from tasks.results.format import format_seconds
from tasks.results.wording import size_text
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record

_LABEL = "datum.value >= 1 ? format(datum.value, ',') + ' s' : format(datum.value, '~s') + 's'"


def model_panels(records: Sequence[Record], grid: Grid) -> list[ChartPanel]:
    """Return bars of means, and points of repeats."""
    panels = [(group, _bars(grid, group, cells)) for group, cells in model_groups(records, grid)]
    return [_panel(grid, group, rows) for group, rows in panels if rows]


def _bars(grid: Grid, group: CaseGroup, cells: Cells) -> list[dict[str, Any]]:
    return [
        {
            "hardware": name,
            "bar": f"{name}, {size_text(case)}",
            "repeat": record.repeat,
            "seconds": record.mean_s,
            "mean": summary.compute_s.value,
            "time": format_seconds(record.mean_s),
            "estimate": format_seconds(summary.compute_s),
        }
        for case in group.cases
        for name in grid.names
        if (summary := grid.summaries.get((name, case))) and summary.compute_s
        for record in cells.get((name, case), [])
        if counts(record) and record.mean_s
    ]


def _panel(grid: Grid, group: CaseGroup, rows: list[dict[str, Any]]) -> ChartPanel:
    firsts = list({row["bar"]: row for row in rows}.values())
    y = bar_axis(rows)
    what = "seconds per job" if group.whole else "seconds per step"
    axis = alt.Axis(labelExpr=_LABEL, tickCount=5)
    colour, opacity = machine_colour(grid), shown()
    description = f"Time of {group.title} by machine and size. Bars are means of repeats, points are repeats."
    return panel_of(
        group.title,
        description,
        30 * len(firsts),
        chart_of(firsts)
        .mark_bar(height=9, yOffset=7, fillOpacity=0.55)
        .encode(
            y=y,
            x=alt.X("mean:Q", axis=axis, title=f"{what}; points are the repeats", scale=alt.Scale(zero=True)),
            color=colour,
            opacity=opacity,
            tooltip=tooltip("bar", "estimate"),
        ),
        chart_of(rows)
        .mark_point(filled=True, size=30, yOffset=7)
        .encode(
            y=y, x=alt.X("seconds:Q"), color=colour, opacity=opacity, tooltip=tooltip("bar", "repeat", "time")
        ),
        bar_names(firsts).encode(opacity=opacity),
    )
