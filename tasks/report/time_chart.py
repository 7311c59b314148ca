"""Seconds per step against work, a panel for each workload in one precision."""

import json
from typing import Any

import altair as alt

from tasks.analysis.digits import format_seconds
from tasks.report.charts import Panel, chart_of, log_axis, machine_colour, machine_shape, shown, tooltip
from tasks.report.grid import Grid, Group, size_text
from tasks.report.theme import SECONDS_LABEL, padded


def time_panels(grid: Grid) -> list[Panel]:
    """Both axes logarithmic, a line a machine; cells that are not ok are left out."""
    panels = ((group, _rows(grid, group)) for group in grid.groups)
    return [_panel(grid, group, rows) for group, rows in panels if rows]


def _rows(grid: Grid, group: Group) -> list[dict[str, Any]]:
    rows = []
    for name in grid.names:
        for case in group.cases:
            summary = grid.summaries.get((name, case))
            time = summary.compute_s if summary else None
            if summary is None or time is None or not summary.ok_repeats or case not in group.work:
                continue
            rows.append(
                {
                    "hardware": name,
                    "size": size_text(case),
                    "work": group.work[case],
                    "value": time.value,
                    "low": time.low,
                    "high": time.high,
                    "time": format_seconds(time),
                    "repeats": f"{summary.ok_repeats} of {summary.repeats} ok",
                }
            )
    return rows


def _panel(grid: Grid, group: Group, rows: list[dict[str, Any]]) -> Panel:
    times = [row[key] for row in rows for key in ("value", "low", "high") if row[key]]
    base = chart_of(rows).encode(
        x=_work_axis(group, rows),
        y=log_axis(alt.Y("value:Q"), padded(times), SECONDS_LABEL, "time per step"),
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "size", "time", "repeats"),
    )
    shape = machine_shape(grid)
    known = base.transform_filter("isValid(datum.low)")
    chart = alt.layer(
        base.mark_line(strokeWidth=1.5, strokeOpacity=0.6),
        known.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q"),
        known.mark_point(filled=True, size=75).encode(shape=shape),
        base.transform_filter("!isValid(datum.low)").mark_point(filled=False, size=65).encode(shape=shape),
    )
    told = f"Time per step of {group.title} against {group.work_title}, both on log axes, a line a machine."
    return Panel(group.title, told, chart.properties(height=230))


def _work_axis(group: Group, rows: list[dict[str, Any]]) -> Any:
    """The axis of work; where a size has one parameter, ticks stand at the sizes and are named by them."""
    domain, channel = padded([row["work"] for row in rows]), alt.X("work:Q")
    names = {name for case in group.work for name, _ in case.size}
    if len(names) > 1:
        return log_axis(channel, domain, "format(datum.value, '~s')", group.work_title)
    sizes = sorted({row["work"]: row["size"].partition("=")[2] for row in rows}.items())
    works = [work for work, _ in sizes]
    label = f"{json.dumps([size for _, size in sizes])}[indexof({works}, datum.value)]"
    return log_axis(channel, domain, label, f"{''.join(names)}, placed by {group.work_title}", works)
