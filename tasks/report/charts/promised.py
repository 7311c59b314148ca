"""Throughput against latency at each tried rate."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.findings.script.promised import PromisedCell, PromisedRates
from tasks.report.charts.panel import (
    ChartPanel,
    chart_of,
    log_axis,
    machine_colour,
    machine_shape,
    panel_of,
    shown,
    tooltip,
)
from tasks.report.charts.theme import SECONDS_LABEL, padded
from tasks.report.grid import Grid
from tasks.report.page_limits import MOST_GROUPS
from tasks.results.format import format_seconds, significant
from tasks.results.wording import script_text

MOST_POINTS = 40  # of a search
PROMISE = "#b4540a"  # contrast of 3:1 with the light and the dark page


def promised_panels(grid: Grid) -> list[ChartPanel]:
    """Return a panel per promise, a line per search."""
    finding = grid.comparison.finding(PromisedRates)
    by_case: dict[str, list[PromisedCell]] = {}
    for cell in finding.cells if finding else ():
        by_case.setdefault(script_text(cell.case), []).append(cell)
    return [
        _panel(grid, f"{case}, {promise}", cells, place)
        for case, cells in by_case.items()
        for place, promise in enumerate(cells[0].searches[0].promises)
        if _rows(cells, place)
    ][:MOST_GROUPS]


def _rows(cells: Sequence[PromisedCell], place: int) -> list[dict[str, Any]]:
    """Omit the latency of points with too many failed requests."""
    return [
        {
            "hardware": cell.hardware,
            "line": f"{cell.hardware} {number}",
            "tokens": point.output_tokens_per_s,
            "seconds": seconds,
            "requests": significant(point.rate, 3),
            "latency": format_seconds(seconds),
            "verdict": point.verdict,
        }
        for cell in cells
        for number, search in enumerate(cell.searches)
        for point in sorted(search.points[:MOST_POINTS], key=lambda point: point.rate)
        if (seconds := dict(enumerate(point.seconds)).get(place)) and point.output_tokens_per_s
    ]


def _panel(grid: Grid, title: str, cells: Sequence[PromisedCell], place: int) -> ChartPanel:
    rows, limit_s = _rows(cells, place), cells[0].searches[0].limits_s[place]
    ends = padded([limit_s, *(row["seconds"] for row in rows)], 1.3)
    x = alt.X("tokens:Q", title="output tokens per second", axis=alt.Axis(tickCount=6))
    y = log_axis(alt.Y("seconds:Q"), ends, SECONDS_LABEL, "latency, log axis (filled: kept)")
    base = chart_of(rows).encode(
        x=x,
        y=y,
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "requests", "tokens", "latency", "verdict"),
    )
    limit = chart_of([{"seconds": limit_s, "name": "promise"}]).encode(y=y)
    kept, other = (
        base.transform_filter("datum.verdict == 'kept'"),
        base.transform_filter("datum.verdict != 'kept'"),
    )
    return panel_of(
        title,
        f"Throughput against latency of {title}, a line for each search; the dashed line is the promise.",
        220,
        limit.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=PROMISE),
        limit.mark_text(align="left", dy=-7, color=PROMISE).encode(x=alt.value(4), text=alt.Text("name:N")),
        base.mark_line(strokeWidth=1.2).encode(detail=alt.Detail("line:N"), order=alt.Order("tokens:Q")),
        kept.mark_point(filled=True, size=70).encode(shape=machine_shape(grid)),
        other.mark_point(filled=False, size=60, strokeWidth=1.5).encode(shape=machine_shape(grid)),
    )
