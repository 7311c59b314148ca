"""Time per step by date, as light and dark SVG."""

from collections.abc import Sequence

import altair as alt

from tasks.report.charts.draw import svg_of
from tasks.report.charts.panel import chart_of, error_bars, fields
from tasks.report.charts.theme import SECONDS_LABEL, config, shapes
from tasks.report.html.trends import Trend
from tasks.results.metrics import metric_in, shown

MOST_POINTS = 400  # nights that can be distinguished in a picture; the table has all
HEIGHT = 150  # pixels


def trend_svg(trend: Trend, machines: Sequence[str], dark: bool = False) -> str:
    """Return empty without a result."""
    rows: list[dict[str, object]] = [
        {
            "hardware": trend.hardware,
            "at": point.started_at.isoformat(),
            **fields(shown(trend.case, point.seconds)),
            "new": point.new_environment and not point.new_machine,
            "moved": point.new_machine,
            "confirms": bool(point.confirms),
        }
        for point in trend.points[-MOST_POINTS:]
        if point.seconds
    ]
    if not rows:
        return ""
    label = "" if metric_in(trend.case) else SECONDS_LABEL
    spec = _chart(rows, list(machines), label, axis_title(trend.case)).to_dict(validate=False)
    return svg_of(spec | {"config": config(dark), "padding": 8})


def axis_title(case: str) -> str:
    """Return time per step, or the metric with its unit."""
    metric = metric_in(case)
    if metric is None:
        return "time per step"
    return metric.name if metric.name == metric.unit or not metric.unit else f"{metric.name}, {metric.unit}"


def _chart(
    rows: list[dict[str, object]], machines: list[str], label: str, title: str
) -> alt.LayerChart | alt.FacetChart:
    axis = alt.Axis(labelExpr=label) if label else alt.Axis()
    base = chart_of(rows).encode(
        x=alt.X("at:T", scale=alt.Scale(type="utc"), title="started, UTC"),
        y=alt.Y("value:Q", scale=alt.Scale(zero=False, nice=True), axis=axis, title=title),
        color=alt.Color("hardware:N", scale=alt.Scale(domain=machines), legend=None),
    )
    scale = alt.Scale(domain=machines, range=shapes(len(machines)))
    shape = alt.Shape("hardware:N", scale=scale, legend=None)
    whole = {"y": alt.value(0), "y2": alt.value(HEIGHT)}
    bounded = base.transform_filter("isValid(datum.low)")
    return alt.layer(
        base.transform_filter("datum.new").mark_rule(strokeDash=[3, 4], strokeOpacity=0.7).encode(**whole),
        base.transform_filter("datum.moved").mark_rule(strokeOpacity=0.7).encode(**whole),
        base.transform_filter("!datum.confirms").mark_line(strokeWidth=1.5, strokeOpacity=0.6),
        error_bars(base),
        bounded.mark_point(filled=True, size=55).encode(shape=shape),
        base.transform_filter("!isValid(datum.low)").mark_point(filled=False, size=50).encode(shape=shape),
    ).properties(width=300, height=HEIGHT)
