"""Time per step by work, one panel for each workload and precision, with break-evens."""

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
    """Return one panel for each group, with one line for each machine.

    Refused cells are left out, and so are cases of several processes, which have their own charts.
    """
    alone = (group for group in grid.groups if not any(PROCESSES in case.params for case in group.cases))
    panels = ((group, _rows(grid, group)) for group in alone)
    return [_panel(grid, group, rows) for group, rows in panels if rows]


def break_even_ends(grid: Grid, group: CaseGroup) -> list[tuple[BreakEven, float, float]]:
    """Return the break-evens in time within a group, each with the work on both sides."""
    matches = []
    break_evens = grid.comparison.finding(BreakEvens)
    for break_even in break_evens.break_evens if break_evens else ():
        if (break_even.workload, break_even.precision) != (group.workload, group.precision):
            continue
        if break_even.by == "time" and break_even.below is not None and break_even.above is not None:
            ends = [_work_at(group, break_even, value) for value in (break_even.below, break_even.above)]
            if ends[0] is not None and ends[1] is not None:
                matches.append((break_even, min(ends[0], ends[1]), max(ends[0], ends[1])))
    return matches


def _work_at(group: CaseGroup, break_even: BreakEven, value: int) -> float | None:
    params = dict(break_even.fixed) | {break_even.parameter: value}
    return next((work for case, work in group.work.items() if case.params == params), None)


def _rows(grid: Grid, group: CaseGroup) -> list[dict[str, Any]]:
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
                    **fields(time),
                    "time": format_seconds(time),
                    "repeats": f"{summary.ok_repeats} of {summary.repeats} count",
                    "grade": str(summary.grade),
                }
            )
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
    """Return a band for each break-even, with the name of the machine that is faster beyond it."""
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
    base = chart_of(rows).encode(
        color=machine_colour(grid), opacity=shown(), tooltip=tooltip("hardware", "break-even")
    )
    ends = alt.Y("top:Q", scale=alt.Scale(type="log", domain=list(span), nice=False))
    return [
        base.mark_rect(style="band").encode(x=x, x2=alt.X2("to:Q")),
        base.mark_text(align="left", dx=3, baseline="top", fontSize=10).encode(
            x=x, y=ends, text=alt.Text("hardware:N")
        ),
    ]


def _work_axis(group: CaseGroup, rows: list[dict[str, Any]], field: str) -> Any:
    """Return the axis of work; its ticks are the sizes if a size has one parameter."""
    domain, channel = padded([row["work"] for row in rows]), alt.X(field)
    names = {name for case in group.work for name, _ in case.size}
    if len(names) > 1:
        return log_axis(channel, domain, "format(datum.value, '~s')", group.work_title)
    sizes = sorted({row["work"]: row["size"].partition("=")[2] for row in rows}.items())
    works = [work for work, _ in sizes]
    label = f"{json.dumps([size for _, size in sizes])}[indexof({works}, datum.value)]"
    return log_axis(channel, domain, label, f"{''.join(names)}, scaled by {group.work_title}", works)
