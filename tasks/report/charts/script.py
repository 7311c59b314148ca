"""Charts of a script: steps, losses, memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from tasks.findings.script.held_back import HeldBack, HeldBacks
from tasks.plausibility.trainings import Standing
from tasks.report.charts.panel import (
    ChartPanel,
    bar_axis,
    bar_names,
    chart_of,
    log_axis,
    machine_colour,
    panel_of,
    shown,
    tooltip,
)
from tasks.report.charts.theme import SECONDS_LABEL, padded
from tasks.report.charts.training import thinned
from tasks.report.grid import Grid
from tasks.report.page_limits import MOST_BARS, MOST_GROUPS
from tasks.results.format import format_seconds
from tasks.results.repeats import key, standing
from tasks.results.wording import bytes_text, size_text
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict

PER_LINE = 120  # points of a repeat that can be distinguished
DASHES = (Standing.WRONG.value, "counts")


def step_panels(records: Sequence[Record], grid: Grid) -> list[ChartPanel]:
    """Return samples in order of time."""
    rows: dict[Case, list[dict[str, Any]]] = {}
    for record in records:
        if record.script and record.wall and min(record.wall.samples_s, default=0.0) > 0:
            block = record.wall.block
            rows.setdefault(record.case, []).extend(
                _line(record) | {"step": place * block, "seconds": value, "time": format_seconds(value)}
                for place, value in thinned(record.wall.samples_s, PER_LINE)
            )
    return [_steps(grid, case, lines) for case, lines in list(rows.items())[:MOST_GROUPS]]


def course_panels(records: Sequence[Record], grid: Grid) -> list[ChartPanel]:
    """Return first steps' losses, wrong repeats' dashed."""
    rows: dict[Case, list[dict[str, Any]]] = {}
    for record in records:
        if record.script and len(record.script.losses) > 1:
            verdict, _ = standing(record, grid.comparison.refusals)
            word = DASHES[0] if verdict is Verdict.WRONG else DASHES[1]
            rows.setdefault(record.case, []).extend(
                _line(record) | {"step": place + 1, "loss": loss, "training": word}
                for place, loss in thinned(record.script.losses, PER_LINE)
            )
    return [_losses(grid, case, lines) for case, lines in list(rows.items())[:MOST_GROUPS]]


def room_panels(grid: Grid) -> list[ChartPanel]:
    """Return peak and free memory by case and machine."""
    seen = grid.comparison.finding(HeldBacks)
    cells = [cell for cell in (seen.cells if seen else ()) if cell.peak_bytes and cell.left_bytes is not None]
    cases = dict.fromkeys(cell.repeats.cell.case for cell in cells)
    return [
        _room(grid, case, {c.repeats.cell.hardware: c for c in cells if c.repeats.cell.case == case})
        for case in list(cases)[:MOST_GROUPS]
    ]


def _line(record: Record) -> dict[str, Any]:
    return {"hardware": record.hardware, "repeat": record.repeat, "line": "/".join(map(str, key(record)))}


def _steps(grid: Grid, case: Case, rows: list[dict[str, Any]]) -> ChartPanel:
    ends = padded([row["seconds"] for row in rows], 1.1)
    chart = chart_of(rows).mark_line(strokeWidth=1.2).encode(
        x=alt.X("step:Q", title="step, from the first timed one", axis=alt.Axis(tickCount=6)),
        y=log_axis(alt.Y("seconds:Q"), ends, SECONDS_LABEL, "time per step, log axis"),
        detail=alt.Detail("line:N"),
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "repeat", "step", "time"),
    )  # fmt: skip
    title = _title(case)
    return panel_of(title, f"Time of each sampled step of {title}, one line for each repeat.", 200, chart)


def _losses(grid: Grid, case: Case, rows: list[dict[str, Any]]) -> ChartPanel:
    dash = alt.Scale(domain=list(DASHES), range=[[5, 3], [1, 0]])
    axis = alt.Axis(tickCount=5)
    chart = chart_of(rows).mark_line(strokeWidth=1.3).encode(
        x=alt.X("step:Q", title="step", axis=alt.Axis(tickCount=6)),
        y=alt.Y("loss:Q", title="loss at backward() (dashed: wrong)", scale=alt.Scale(zero=False), axis=axis),
        detail=alt.Detail("line:N"),
        strokeDash=alt.StrokeDash("training:N", scale=dash, legend=None),
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "repeat", "step", "loss", "training"),
    )  # fmt: skip
    title = _title(case)
    text = (
        f"Losses of the first steps of {title}, as the first backward() of each step got them, one line for each "
        "repeat. Dashed lines are wrong repeats."
    )
    return panel_of(title, text, 200, chart)


def _room(grid: Grid, case: Case, cells: Mapping[str, HeldBack]) -> ChartPanel:
    names = [name for name in grid.names if name in cells][:MOST_BARS]
    rows: list[dict[str, Any]] = [
        {
            "hardware": name,
            "bar": f"{name}: {bytes_text(cell.peak_bytes)}, {bytes_text(cell.left_bytes)} free",
            "peak": (cell.peak_bytes or 0) / 2**30,
            "whole": ((cell.peak_bytes or 0) + (cell.left_bytes or 0)) / 2**30,
        }
        for name, cell in ((name, cells[name]) for name in names)
    ]
    base, colour = chart_of(rows), machine_colour(grid)
    bars = (
        base.mark_bar(height=9, yOffset=7, fillOpacity=opacity).encode(
            y=bar_axis(rows),
            x=alt.X(f"{name}:Q", title="memory, GiB (pale: free at the peak)", axis=alt.Axis(tickCount=5)),
            color=colour,
            tooltip=tooltip("bar"),
        )
        for name, opacity in (("whole", 0.2), ("peak", 0.9))
    )
    title = _title(case)
    description = f"Peak and free memory of {title}, one bar for each machine."
    return panel_of(title, description, 30 * len(rows), *bars, bar_names(rows))


def _title(case: Case) -> str:
    return " ".join(filter(None, (case.workload, size_text(case))))
