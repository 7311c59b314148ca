"""Time per step by work, with break-evens."""

import json
from typing import Any

import altair as alt

from tasks.findings.break_even import BreakEven, BreakEvens
from tasks.findings.scaling_families import PROCESSES
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
from tasks.report.charts.theme import SECONDS_LABEL, padded
from tasks.report.grid import CaseGroup, Grid
from tasks.results.format import format_seconds
from tasks.results.wording import size_text


def time_panels(grid: Grid) -> list[ChartPanel]:
    """Return a panel per group.

    Refused cells and several processes are left out.
    """
    alone = (group for group in grid.groups if not any(PROCESSES in case.params for case in group.cases))
    panels = ((group, _rows(grid, group)) for group in alone)
    return [_panel(grid, group, rows) for group, rows in panels if rows]


def break_even_ends(grid: Grid, group: CaseGroup) -> list[tuple[BreakEven, float, float]]:
    """Return each with the work on both sides."""
    matches = []
    break_evens = grid.comparison.finding(BreakEvens)
    for each in break_evens.break_evens if break_evens else ():
        if (each.workload, each.precision, each.by) == (group.workload, group.precision, "time"):
            sides = [{**dict(each.fixed), each.parameter: value} for value in (each.below, each.above)]
            ends = [work for side in sides for case, work in group.work.items() if case.params == side]
            if len(ends) == len(sides):
                matches.append((each, min(ends), max(ends)))
    return matches


def _rows(grid: Grid, group: CaseGroup) -> list[dict[str, Any]]:
    rows = []
    for name in grid.names:
        for case in group.cases:
            summary = grid.summaries.get((name, case))
            if summary and summary.compute_s and summary.ok_repeats and case in group.work:
                row = {"hardware": name, "size": size_text(case), "work": group.work[case]}
                row |= fields(summary.compute_s) | {
                    "time": format_seconds(summary.compute_s),
                    "repeats": f"{summary.ok_repeats} of {summary.repeats} count",
                    "grade": str(summary.grade),
                }
                rows.append(row)
    return rows


def _panel(grid: Grid, group: CaseGroup, rows: list[dict[str, Any]]) -> ChartPanel:
    span = padded(extent(rows))
    what = "time per job" if group.whole else "time per step"
    base = chart_of(rows).encode(
        x=_work_axis(group, rows, "work:Q"),
        y=log_axis(alt.Y("value:Q"), span, SECONDS_LABEL, what),
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "size", "time", "repeats", "grade"),
    )
    shape = machine_shape(grid)
    bounded = base.transform_filter("isValid(datum.low)")
    dashed = alt.StrokeDashValue([1, 0], condition={"test": "datum.grade == 'wide'", "value": [2, 2]})
    hollow = alt.FillOpacityValue(1, condition={"test": "datum.grade == 'wide'", "value": 0.25})
    chart = alt.layer(
        *_bands(grid, group, _work_axis(group, rows, "from:Q"), span),
        base.mark_line(strokeWidth=1.5, strokeOpacity=0.6),
        error_bars(base).encode(strokeDash=dashed),
        bounded.mark_point(filled=True, size=75).encode(shape=shape, fillOpacity=hollow),
        base.transform_filter("!isValid(datum.low)").mark_point(filled=False, size=65).encode(shape=shape),
    )
    description = f"Time per step of {group.title} by {group.work_title}, on logarithmic axes."
    return ChartPanel(group.title, description, chart.properties(height=230))


def _bands(grid: Grid, group: CaseGroup, x: Any, span: tuple[float, float]) -> list[alt.Chart]:
    low, high = span
    rows = [
        {
            "hardware": break_even.hardware,
            "from": start,
            "to": end,
            "top": high / (high / low) ** (0.03 + 0.07 * index),
            "break-even": break_even.sentence,
        }
        for index, (break_even, start, end) in enumerate(break_even_ends(grid, group))
    ]
    if not rows:
        return []
    words = tooltip("hardware", "break-even")
    base = chart_of(rows).encode(x=x, color=machine_colour(grid), opacity=shown(), tooltip=words)
    ends = alt.Y("top:Q", scale=alt.Scale(type="log", domain=list(span), nice=False))
    names = base.mark_text(align="left", dx=3, baseline="top", fontSize=10)
    return [
        base.mark_rect(style="band").encode(x2=alt.X2("to:Q")),
        names.encode(y=ends, text=alt.Text("hardware:N")),
    ]


def _work_axis(group: CaseGroup, rows: list[dict[str, Any]], field: str) -> Any:
    domain, channel = padded([row["work"] for row in rows]), alt.X(field)
    names = {name for case in group.work for name, _ in case.size}
    if len(names) > 1:
        return log_axis(channel, domain, "format(datum.value, '~s')", group.work_title)
    sizes = sorted({row["work"]: row["size"].partition("=")[2] for row in rows}.items())
    works = [work for work, _ in sizes]
    label = f"{json.dumps([size for _, size in sizes])}[indexof({works}, datum.value)]"
    return log_axis(channel, domain, label, f"{''.join(names)}, scaled by {group.work_title}", works)
