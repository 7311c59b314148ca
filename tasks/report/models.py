"""Models by machine: every repeat raw, the device's own time, what they learned, and how large they are."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.report.charts.panel import Panel, chart_of, machine_colour, shown, tooltip
from tasks.report.grid import Grid, Group, size_text
from tasks.results.format import format_seconds
from tasks.results.wording import verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record
from workloads.harness.records.text import seconds

BUSY, EVENTS, HOST = "busy by profile", "device events", "host clock, the CPU is the device"
_LABEL = "datum.value >= 1 ? format(datum.value, ',') + ' s' : format(datum.value, '~s') + 's'"
Cells = dict[tuple[str, Case], list[Record]]


def model_groups(records: Sequence[Record], grid: Grid) -> list[tuple[Group, Cells]]:
    """Groups of cases that have a model, which is what has parameters, with the records of each cell."""
    cells: Cells = {}
    for record in records:
        cells.setdefault((record.hardware, record.case), []).append(record)
    with_model = {r.case for r in records if r.training or (r.work and r.work.parameters)}
    return [(group, cells) for group in grid.groups if any(case in with_model for case in group.cases)]


def model_rows(records: Sequence[Record], grid: Grid) -> list[dict[str, Any]]:
    """A group a model: a row a case and machine, with the time of every repeat."""
    return [
        {
            "title": group.title,
            "rows": [
                _row(grid, cells[name, case])
                for case in group.cases
                for name in grid.names
                if (name, case) in cells
            ],
        }
        for group, cells in model_groups(records, grid)
    ]


def device_times(records: Sequence[Record], grid: Grid) -> list[dict[str, Any]]:
    """The aggregated table: a row a case, a column a machine, device seconds of a step and their source."""
    return [
        {
            "case": f"{group.title} {size_text(case)}",
            "cells": [_device_cell(cells.get((name, case), [])) for name in grid.names],
        }
        for group, cells in model_groups(records, grid)
        for case in group.cases
    ]


def device_time(record: Record) -> tuple[float, str] | None:
    """Seconds in which the device worked on a step, and how that is known; None where nothing was timed.

    A profile leaves out the gaps between kernels, events do not, and where the host is the device its clock
    is all that there is.
    """
    profile = record.profile
    if profile and profile.busy_s is not None and profile.steps:
        return profile.busy_s / profile.steps, BUSY
    if record.device_time:
        return record.device_time.median_s, EVENTS
    return (record.wall.median_s, HOST if record.device == "cpu" else "host clock") if record.wall else None


def model_panels(records: Sequence[Record], grid: Grid) -> list[Panel]:
    """A bar a case and machine, its length the mean of repeats, and each repeat as a point on it."""
    panels = [(group, _bars(grid, group, cells)) for group, cells in model_groups(records, grid)]
    return [_panel(grid, group, rows) for group, rows in panels if rows]


def _row(grid: Grid, repeats: Sequence[Record]) -> dict[str, Any]:
    first = repeats[0]
    last = next((r for r in reversed(repeats) if r.ok), repeats[-1])
    summary = grid.summaries.get((first.hardware, first.case))
    parameters = next((r.work.parameters for r in repeats if r.work and r.work.parameters), None)
    return {
        "hardware": first.hardware,
        "size": size_text(first.case),
        "raw": ", ".join(_raw(r) for r in repeats),
        "time": format_seconds(summary.compute_s if summary else None),
        "what": "whole job" if first.wall and first.wall.whole else "step",
        "parameters": f"{parameters:,}" if parameters else "–",
        "quality": quality_text(last),
    }


def _raw(record: Record) -> str:
    text = seconds(record.compute_s) if record.compute_s else verdict_text(record.verdict)
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def quality_text(record: Record) -> str:
    """What a training came to: `loss 2.303 to 0.412; accuracy 0.981, target 0.97`; a dash for none."""
    training = record.training
    if training is None:
        return "–"
    text = f"loss {training.first_loss:.4g} to {training.last_loss:.4g}"
    if training.value is not None and training.metric:
        text += f"; {training.metric} {training.value:.4g}"
        text += f", target {training.target:.4g}" if training.target is not None else ""
    return text


def _device_cell(repeats: Sequence[Record]) -> dict[str, str]:
    found = [pair for record in repeats if record.ok and (pair := device_time(record))]
    if not found:
        return {"text": verdict_text(repeats[0].verdict) if repeats else "not measured", "source": ""}
    middle = sorted(found)[(len(found) - 1) // 2]
    return {"text": format_seconds(middle[0]), "source": middle[1]}


def _bars(grid: Grid, group: Group, cells: Cells) -> list[dict[str, Any]]:
    return [
        {
            "hardware": name,
            "bar": f"{name}, {size_text(case)}",
            "repeat": record.repeat,
            "seconds": record.compute_s,
            "mean": summary.compute_s.value,
            "time": format_seconds(record.compute_s),
            "estimate": format_seconds(summary.compute_s),
        }
        for case in group.cases
        for name in grid.names
        if (summary := grid.summaries.get((name, case))) and summary.compute_s
        for record in cells.get((name, case), [])
        if record.ok and record.compute_s
    ]


def _panel(grid: Grid, group: Group, rows: list[dict[str, Any]]) -> Panel:
    firsts = list({row["bar"]: row for row in rows}.values())
    y = alt.Y("bar:N", sort=[row["bar"] for row in firsts], axis=None)
    what = "seconds a job" if group.whole else "seconds a step"
    axis = alt.Axis(labelExpr=_LABEL, tickCount=5)
    colour, opacity = machine_colour(grid), shown()
    chart = alt.layer(
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
        chart_of(firsts)
        .mark_text(align="left", dy=-5, baseline="middle")
        .encode(y=y, x=alt.XDatum(0), text=alt.Text("bar:N"), opacity=opacity),
    )
    told = f"Time of {group.title} by machine and size, a bar the mean of repeats, a point a repeat."
    return Panel(group.title, told, chart.properties(height=30 * len(firsts)))
