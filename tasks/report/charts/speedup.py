"""Compute speedups and cost efficiencies as bars from 1×."""

import json
from typing import Any

import altair as alt

from tasks.report.charts.panel import (
    ChartPanel,
    chart_of,
    extent,
    fields,
    log_axis,
    machine_colour,
    machine_shape,
    shown,
    tooltip,
)
from tasks.report.charts.theme import TIMES_LABEL, padded
from tasks.report.grid import CaseGroup, Grid
from tasks.results.cost import cost_words
from tasks.results.format import format_ratio
from tasks.results.model import Pairing
from tasks.results.values import RatioVerdict
from tasks.results.wording import WIDE_MARK, size_text, verdict_text
from workloads.harness.records.record import Grade

Rows = list[dict[str, Any]]
COMPUTE, COST = "compute speedup", "cost efficiency"
FAINT = "datum.outcome == 'undecided' || datum.grade == 'wide'"
_BAR = 18  # height of a bar with its gap, in pixels


def speedup_panels(grid: Grid, brief: bool = False, by: str = COMPUTE) -> list[ChartPanel]:
    """Return panels with one log axis; `brief` numbers have no bounds."""
    panels = [(group, _rows(grid, group, brief, by)) for group in grid.groups]
    every = [row for _, rows in panels for row in rows if row["value"]]
    low, high = padded([1.0, *extent(every)], 1.15)
    room = (high / low) ** (0.35 if brief else 0.75)  # for the numbers to the right of bars
    return [
        _panel(grid, group, rows, (low, high * room), brief, by)
        for group, rows in panels
        if any(row["value"] for row in rows)
    ]


def _rows(grid: Grid, group: CaseGroup, brief: bool, by: str) -> Rows:
    rows: Rows = []
    place = 0.0
    for case in group.cases:
        for name in grid.names:
            pairing = grid.pairings.get((name, case))
            if pairing and name != grid.comparison.baseline:
                row = {"hardware": name, "size": size_text(case), "place": place, **fields(None)}
                rows.append(row | _bar(grid, pairing, brief, by))
                place += 1
        place += 0.7  # between two sizes
    return rows


def _bar(grid: Grid, pairing: Pairing, brief: bool, by: str) -> dict[str, Any]:
    ratio = pairing.cost if by == COST else pairing.compute
    if ratio is None:
        summary = grid.summaries.get((pairing.hardware, pairing.case))
        lacking = "no price" if by == COST and pairing.compute else "no ratio"
        word = verdict_text(summary.verdict) if summary and not summary.ok_repeats else lacking
        return {"outcome": word, "grade": "", "label": word, "ratio": pairing.refused or word}
    estimate, text = ratio.estimate, format_ratio(ratio)
    unsure = "" if ratio.outcome is not RatioVerdict.UNDECIDED else " ?" if brief else " undecided"
    unsure += f" {WIDE_MARK}" if pairing.grade is Grade.WIDE else ""
    return {
        **fields(estimate),
        "end": max(estimate.high or estimate.value, 1.0),
        "outcome": cost_words(ratio) if by == COST else str(ratio.outcome),
        "grade": str(pairing.grade),
        "label": (text.partition(" ")[0] if brief else text) + unsure,
        "ratio": text,
    }


def _panel(
    grid: Grid, group: CaseGroup, rows: Rows, domain: tuple[float, float], brief: bool, by: str
) -> ChartPanel:
    base = chart_of(rows).encode(
        y=size_axis(rows), opacity=shown(), tooltip=tooltip("hardware", "size", "ratio", "outcome", "grade")
    )
    title = by if brief else f"{by} over {grid.comparison.baseline}"
    chart = alt.layer(
        *_bars(grid, base, log_axis(alt.X("value:Q"), domain, TIMES_LABEL, title)),
        chart_of([{}]).mark_rule(strokeWidth=1.5).encode(x=alt.XDatum(1)),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(align="left", dx=8, fontStyle="italic", style="quiet")
        .encode(x=alt.XDatum(1), text=alt.Text("label:N")),
    )
    text = f"{by} of {group.title} over {grid.comparison.baseline} with 95 % intervals.".capitalize()
    return ChartPanel(group.title, text, chart.properties(height=round(_BAR * (rows[-1]["place"] + 1.2))))


def size_axis(rows: Rows) -> alt.Y:
    """Return sizes by place, to align bars and texts."""
    places: dict[str, list[float]] = {}
    for row in rows:
        places.setdefault(row["size"], []).append(row["place"])
    middles = [sum(taken) / len(taken) for taken in places.values()]
    label = f"{json.dumps(list(places))}[indexof({middles}, datum.value)]"
    axis = alt.Axis(values=middles, labelExpr=label, ticks=False, domain=False, grid=False, labelPadding=6)
    scale = alt.Scale(domain=[-0.6, rows[-1]["place"] + 0.6], reverse=True, nice=False, zero=False)
    return alt.Y("place:Q", title=None, axis=axis, scale=scale)


def _bars(grid: Grid, base: alt.Chart, x: Any) -> list[alt.Chart]:
    ratios = base.transform_filter("isValid(datum.value)")
    bounded = ratios.transform_filter("isValid(datum.low)")
    faint = alt.FillOpacityValue(0.8, condition={"test": FAINT, "value": 0.25})
    colour = machine_colour(grid)
    return [
        ratios.mark_bar(size=_BAR - 5, orient="horizontal").encode(
            x=x, x2=alt.X2Datum(1), fillOpacity=faint, color=colour
        ),
        bounded.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        bounded.mark_tick(thickness=1.5, size=7).encode(x=alt.X("low:Q")),
        bounded.mark_tick(thickness=1.5, size=7).encode(x=alt.X("high:Q")),
        ratios.mark_point(filled=True, size=55, xOffset=10).encode(
            x=alt.X("end:Q"), shape=machine_shape(grid), color=colour
        ),
        ratios.mark_text(align="left", dx=19).encode(x=alt.X("end:Q"), text=alt.Text("label:N")),
    ]
