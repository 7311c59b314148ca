"""Each case's speedup, or its time without ratios."""

from collections.abc import Sequence
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
from tasks.report.charts.speedup import size_axis
from tasks.report.charts.theme import SECONDS_LABEL, TIMES_LABEL, padded
from tasks.report.grid import Grid
from tasks.results.format import format_ratio, format_seconds
from tasks.results.model import Summary
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import size_text, verdict_text
from workloads.harness.records.case import Case

MOST_MARKS = 24  # in a picture that fits on the first screen
_STEP = 17  # height of a mark in pixels

Rows = list[dict[str, Any]]


def overview_panel(grid: Grid) -> ChartPanel | None:
    """Draw all cases, or many at even distances."""
    baseline = grid.comparison.baseline
    is_compared = any(pairing.compute for pairing in grid.comparison.pairings)
    names = [name for name in grid.names if name != baseline] if is_compared else grid.names
    cases = _cases(grid, is_compared)
    if not cases:
        return None
    most = _most_cases(names)
    places: Sequence[int] = range(len(cases))
    if len(cases) > most:
        places = [round(i * (len(cases) - 1) / (most - 1)) for i in range(most)]
    titles = [f"{case.workload} {size_text(case)}" for case in cases]
    drawn = [
        (titles[i] if titles.count(titles[i]) == 1 else f"{titles[i]} {cases[i].terms}", cases[i])
        for i in places
    ]
    what = f"Speedup over {baseline}" if is_compared else "Time per step"
    total = sum(len(group.cases) for group in grid.groups)
    more = f", {len(drawn)} of {total} cases" if len(drawn) < total else ""
    description = f"{what} of each case with its 95 % interval, on a logarithmic axis."
    chart = _chart(grid, _rows(grid, names, drawn, is_compared), is_compared)
    return ChartPanel(f"{what}{more}", description, chart)


def is_complete(grid: Grid) -> bool:
    """Return whether it has every speedup."""
    return len(_cases(grid, is_compared=True)) <= _most_cases(grid.names[1:])


def _most_cases(names: Sequence[str]) -> int:
    return max(2, MOST_MARKS // max(len(names), 1))


def _cases(grid: Grid, is_compared: bool) -> list[Case]:
    compared = {pairing.case for pairing in grid.comparison.pairings if pairing.compute}
    timed = {s.cell.case for s in grid.comparison.summaries if s.compute_s and s.compute_s.value > 0}
    with_result = compared if is_compared else timed
    return [case for group in grid.groups for case in group.cases if case in with_result]


def _rows(grid: Grid, names: list[str], cases: list[tuple[str, Case]], is_compared: bool) -> Rows:
    rows: Rows = []
    place = 0.0
    for title, case in cases:
        for name in names:
            if summary := grid.summaries.get((name, case)):
                pairing = grid.pairings.get((name, case))
                ratio = pairing.compute if pairing else None
                mark = _ratio_mark(summary, ratio) if is_compared else _time_mark(summary)
                rows.append({"hardware": name, "size": title, "place": place} | mark)
                place += 1
        place += 0.4  # between two cases
    return rows


def _ratio_mark(summary: Summary, ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return _mark(None, "no ratio" if summary.ok_repeats else verdict_text(summary.verdict))
    is_undecided = ratio.outcome is RatioVerdict.UNDECIDED
    return _mark(ratio.estimate, format_ratio(ratio), str(ratio.outcome), " ?" if is_undecided else "")


def _time_mark(summary: Summary) -> dict[str, Any]:
    estimate = summary.compute_s
    if estimate is None or not estimate.value > 0:
        return _mark(None, verdict_text(summary.verdict))
    return _mark(estimate, format_seconds(estimate), "" if estimate.low else "one repeat")


def _mark(estimate: Estimate | None, text: str, outcome: str = "", suffix: str = "") -> dict[str, Any]:
    return {
        **fields(estimate),
        "label": (text.partition(" (")[0] if estimate else text) + suffix,
        "number": text,
        "outcome": outcome or text,
    }


def _chart(grid: Grid, rows: Rows, is_compared: bool) -> alt.LayerChart | alt.FacetChart:
    low, high = padded([*extent(rows), *([1.0] if is_compared else [])], 1.1)
    label, title = (TIMES_LABEL, "times as fast") if is_compared else (SECONDS_LABEL, "time per step")
    right = high * (high / low) ** 0.35  # leaves room for the numbers
    x = log_axis(alt.X("value:Q"), (low, right), label, title)
    base = chart_of(rows).encode(
        y=size_axis(rows), opacity=shown(), tooltip=tooltip("hardware", "size", "number", "outcome")
    )
    drawn = base.transform_filter("isValid(datum.value)")
    bounded = base.transform_filter("isValid(datum.low)")
    fill = alt.FillOpacityValue(
        0.9, condition={"test": "datum.outcome == 'undecided' || datum.outcome == 'one repeat'", "value": 0}
    )
    colour, scale = machine_colour(grid), alt.Scale(domain=grid.names)
    layers = [
        bounded.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), color=colour),
        drawn.mark_point(filled=True, size=70, strokeWidth=1.5, strokeOpacity=1).encode(
            x=x,
            fill=alt.Fill("hardware:N", scale=scale, legend=None),
            stroke=alt.Stroke("hardware:N", scale=scale, legend=None),
            shape=machine_shape(grid),
            fillOpacity=fill,
        ),
        drawn.mark_text(align="right").encode(x=alt.XDatum(right), text=alt.Text("label:N")),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(align="left", dx=8, fontStyle="italic", style="quiet")
        .encode(x=alt.XDatum(1.0 if is_compared else low), text=alt.Text("label:N")),
    ]
    if is_compared:
        layers.insert(0, chart_of([{}]).mark_rule(strokeWidth=1.5).encode(x=alt.XDatum(1)))
    return alt.layer(*layers).properties(height=round(_STEP * (rows[-1]["place"] + 1.4)))
