"""Time and cost at each price, and the Pareto front."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.findings.offers import Offer, Offers, passes_of, standing
from tasks.findings.script.metrics import Metrics
from tasks.report.charts.panel import (
    ChartPanel,
    chart_of,
    log_axis,
    machine_colour,
    machine_shape,
    shown,
    tooltip,
)
from tasks.report.charts.theme import SECONDS_LABEL, padded
from tasks.report.grid import Grid
from tasks.results.format import format_usd
from tasks.results.metrics import label_of, metric_in, number_text
from tasks.results.metrics import shown as shown_number
from tasks.results.speedup import scaled
from tasks.results.wording import size_text
from workloads.harness.records.case import Case

MOST_CASES = 5  # panels in addition to the suite's
MOST_NAMES = 6  # named offers in a panel; if there are more, only the fastest and the cheapest have names
NUMBER_LABEL = "format(datum.value, '~s')"
USD_LABEL = "'$' + format(datum.value, '~g')"
NEUTRAL = "#7b838c"  # contrast of 3:1 with the light and the dark page


def pareto_panels(grid: Grid) -> list[ChartPanel]:
    """Return the suite's, then those of the first contested cases."""
    worth = _contested(grid)
    cases = [case for case in worth if case is not None][:MOST_CASES]
    order = ([None] if None in worth else []) + cases
    return [_panel(grid, case, worth[case]) for case in order]


def cases_left(grid: Grid) -> int:
    """Return contested cases without a panel."""
    return max(sum(1 for case in _contested(grid) if case is not None) - MOST_CASES, 0)


def _contested(grid: Grid) -> dict[Case | None, list[Offer]]:
    by_case: dict[Case | None, list[Offer]] = {}
    offers, numbers = grid.comparison.finding(Offers), grid.comparison.finding(Metrics)
    for offer in (*(offers.offers if offers else ()), *(numbers.offers if numbers else ())):
        by_case.setdefault(offer.case, []).append(offer)
    return {case: matches for case, matches in by_case.items() if len({o.hardware for o in matches}) > 1}


def _rows(offers: Sequence[Offer], passes: int, number: str) -> list[dict[str, Any]]:
    """Return a row per offer; the first axis shows the number with the id `number`, if empty the time."""
    numbers = [shown_number(number, offer.seconds) or offer.seconds for offer in offers]
    middle = sorted(each.value for each in numbers)[len(offers) // 2]
    ends = {min(offers, key=lambda o: o.seconds.value), min(offers, key=lambda o: o.usd.value)}
    return [
        {
            "hardware": offer.hardware,
            "purchase": offer.purchase,
            "name": offer.hardware + ("" if offer.purchase == "listed" else f", {offer.purchase}"),
            "x": of_offer.value,
            "x_low": of_offer.low,
            "x_high": of_offer.high,
            "y": usd.value,
            "y_low": usd.low,
            "y_high": usd.high,
            "time": number_text(number, offer.seconds),
            "money": format_usd(usd),
            "front": not offer.dominated_by,
            "standing": standing(offer),
            "named": len(offers) <= MOST_NAMES or offer in ends,
            "right": of_offer.value > middle,
        }
        for offer, of_offer in zip(offers, numbers, strict=True)
        for usd in (scaled(offer.usd, passes),)
    ]


def _panel(grid: Grid, case: Case | None, offers: Sequence[Offer]) -> ChartPanel:
    passes = passes_of(offers)
    metric = metric_in(case.id) if case else None
    rows = _rows(offers, passes, case.id if case and metric else "")
    keys = ((axis, f"{axis}_low", f"{axis}_high") for axis in "xy")
    span = [[row[key] for row in rows for key in of_axis if row[key]] for of_axis in keys]
    one, many, time = ("pass", "passes", "one pass") if case is None else ("step", "steps", "a step")
    if metric:
        one, many = ("unit", metric.thing) if metric.thing else ("call", "calls")
    label = label_of(metric) if metric else f"time of {time}"
    unit = SECONDS_LABEL if metric is None or metric.is_time else NUMBER_LABEL
    x = log_axis(alt.X("x:Q"), padded(span[0], 1.9), unit, label)
    money = f"USD for {passes:,} {many}" if passes > 1 else f"USD for a {one}"
    y = log_axis(alt.Y("y:Q"), padded(span[1], 1.5), USD_LABEL, money)
    chart = alt.layer(*_layers(grid, rows, x, y)).properties(height=280 if case is None else 220)
    title = "The suite" if case is None else f"{case.workload} {size_text(case)} · {case.terms}"
    what = "Number" if metric else "Time"
    description = f"{what} and cost of {title} on logarithmic axes. The dashed line is the Pareto front."
    return ChartPanel(title, description, chart)


def _layers(grid: Grid, rows: list[dict[str, Any]], x: Any, y: Any) -> list[alt.Chart]:
    colour, shape, whole = machine_colour(grid), machine_shape(grid), shown()
    base = chart_of(rows).encode(
        x=x, y=y, color=colour, opacity=whole, tooltip=tooltip("name", "time", "money", "standing")
    )
    front, beaten = base.transform_filter("datum.front"), base.transform_filter("!datum.front")
    joined = (
        chart_of(rows)
        .transform_filter("datum.front")
        .encode(x=x, y=y, detail=alt.Detail("purchase:N"), order=alt.Order("x:Q"))
    )
    names = [
        chart_of(rows)
        .transform_filter(f"datum.named && {'' if right else '!'}datum.right")
        .mark_text(align="right" if right else "left", dx=-7 if right else 7, dy=-10)
        .encode(x=x, y=y, opacity=whole, text=alt.Text("name:N"))
        for right in (False, True)
    ]
    return [
        joined.mark_line(strokeDash=[5, 4], strokeWidth=1.5, color=NEUTRAL),
        base.mark_line(strokeWidth=1, strokeOpacity=0.5).encode(detail=alt.Detail("hardware:N")),
        base.transform_filter("isValid(datum.x_low)")
        .mark_rule(strokeWidth=1.5)
        .encode(x=alt.X("x_low:Q"), x2=alt.X2("x_high:Q")),
        base.transform_filter("isValid(datum.y_low)")
        .mark_rule(strokeWidth=1.5)
        .encode(y=alt.Y("y_low:Q"), y2=alt.Y2("y_high:Q")),
        beaten.mark_point(filled=False, size=70, strokeWidth=1.5).encode(shape=shape),
        front.mark_point(filled=True, size=110).encode(shape=shape),
        *names,
    ]
