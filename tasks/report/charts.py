"""Charts as Vega-Lite: time by size and speedup, one panel for each workload in one precision."""

from dataclasses import dataclass
from typing import Any

import altair as alt

from tasks.analysis.digits import format_ratio, format_seconds
from tasks.analysis.model import Outcome, Pairing, Ratio
from tasks.report.grid import Grid, Group, size_text
from tasks.report.theme import SECONDS_LABEL, TIMES_LABEL, log_ticks, padded, shapes
from tasks.report.words import verdict_text

_SEEN = "indexof(off, datum.hardware) < 0"
OFF = {"name": "off", "value": []}
"""The parameter that a page sets to the machines it dims; every chart of machines needs it."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: a heading, a sentence for those who can't see it, and its Vega-Lite."""

    title: str
    description: str
    chart: alt.LayerChart

    def spec(self) -> dict[str, Any]:
        """Vega-Lite for a page: as wide as its container, without the colours of a theme."""
        spec = self.chart.properties(width="container", description=self.description).to_dict()
        return {key: value for key, value in spec.items() if key != "config"} | {
            "autosize": {"type": "fit-x", "contains": "padding"},
            "params": [OFF],
        }


def time_panels(grid: Grid) -> list[Panel]:
    """Seconds per step against work, both on log axes, a line a machine."""
    panels = ((group, _time_rows(grid, group)) for group in grid.groups)
    return [_time_panel(grid, group, rows) for group, rows in panels if rows]


def speedup_panels(grid: Grid) -> list[Panel]:
    """Compute speedups as bars from the 1× line, with intervals; every panel has the same axis."""
    rows = {group.title: _speedup_rows(grid, group) for group in grid.groups}
    drawn = [row for members in rows.values() for row in members if row["value"]]
    bounds = [row[key] for row in drawn for key in ("value", "low", "high") if row[key]]
    low, high = padded([1.0, *bounds], 1.15)
    domain = (low, high * (high / low) ** 0.28)  # room for the numbers beside the bars
    return [
        _speedup_panel(grid, group, rows[group.title], domain)
        for group in grid.groups
        if any(row["value"] for row in rows[group.title])
    ]


def _time_rows(grid: Grid, group: Group) -> list[dict[str, Any]]:
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


def _time_panel(grid: Grid, group: Group, rows: list[dict[str, Any]]) -> Panel:
    times = [row[key] for row in rows for key in ("value", "low", "high") if row[key]]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=_work_axis(group, rows),
        y=_log_axis(alt.Y("value:Q"), padded(times), SECONDS_LABEL, "time per step"),
        color=_machine_colour(grid),
        opacity=alt.condition(_SEEN, alt.value(1), alt.value(0.08)),
        tooltip=[alt.Tooltip(f"{key}:N") for key in ("hardware", "size", "time", "repeats")],
    )
    known = base.transform_filter("isValid(datum.low)")
    chart = alt.layer(
        base.mark_line(strokeWidth=1.5, strokeOpacity=0.6),
        known.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q"),
        known.mark_point(filled=True, size=75, opacity=1).encode(shape=_machine_shape(grid)),
        base.transform_filter("!isValid(datum.low)")
        .mark_point(filled=False, size=65)
        .encode(shape=_machine_shape(grid)),
    )
    told = f"Time per step of {group.title} against {group.work_title}, both on log axes, a line a machine."
    return Panel(group.title, told, chart.properties(height=230))


def _work_axis(group: Group, rows: list[dict[str, Any]]) -> alt.X:
    """The axis of work; where a size has one parameter, ticks stand at the sizes and are named by them."""
    domain = padded([row["work"] for row in rows])
    varying = {name for case in group.work for name, _ in case.size}
    if len(varying) > 1:
        return _log_axis(alt.X("work:Q"), domain, "format(datum.value, '~s')", group.work_title)
    places = sorted({row["work"]: row["size"].partition("=")[2] for row in rows}.items())
    label = f"{[size for _, size in places]}[indexof({[work for work, _ in places]}, datum.value)]"
    return _log_axis(
        alt.X("work:Q"),
        domain,
        label,
        f"{''.join(varying)}, placed by {group.work_title}",
        [w for w, _ in places],
    )


def _log_axis(
    channel: Any, domain: tuple[float, float], label: str, title: str, ticks: list[float] | None = None
) -> Any:
    axis = alt.Axis(
        values=ticks or log_ticks(*domain), labelExpr=label, labelOverlap="greedy", labelSeparation=4
    )
    return channel.scale(type="log", domain=list(domain), nice=False).axis(axis).title(title)


def _machine_colour(grid: Grid) -> alt.Color:
    return alt.Color("hardware:N", scale=alt.Scale(domain=grid.names), legend=None)


def _machine_shape(grid: Grid) -> alt.Shape:
    scale = alt.Scale(domain=grid.names, range=shapes(len(grid.names)))
    return alt.Shape("hardware:N", scale=scale, legend=None)


def _speedup_rows(grid: Grid, group: Group) -> list[dict[str, Any]]:
    """A row a bar; a cell without a ratio becomes a word in place of its bar."""
    rows = []
    for case in group.cases:
        for name in grid.names:
            pairing = grid.pairings.get((name, case))
            if pairing is None or name == grid.comparison.baseline:
                continue
            row = {"hardware": name, "size": size_text(case), "value": None, "low": None, "high": None}
            rows.append(row | _bar(grid, pairing, pairing.compute))
    return rows


def _bar(grid: Grid, pairing: Pairing, ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        summary = grid.summaries.get((pairing.hardware, pairing.case))
        word = verdict_text(summary.verdict) if summary and not summary.ok_repeats else "no ratio"
        return {"outcome": word, "label": word, "ratio": pairing.refused or word}
    estimate = ratio.estimate
    unsure = ratio.outcome is Outcome.UNDECIDED
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "end": max(estimate.high or estimate.value, 1.0),
        "outcome": str(ratio.outcome),
        "label": format_ratio(estimate).partition(" ")[0] + (" undecided" if unsure else ""),
        "ratio": format_ratio(estimate),
    }


def _speedup_panel(
    grid: Grid, group: Group, rows: list[dict[str, Any]], domain: tuple[float, float]
) -> Panel:
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    drawn = [name for name in grid.names if any(row["hardware"] == name for row in rows)]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("size:N", sort=sizes, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6)),
        yOffset=alt.YOffset("hardware:N", scale=alt.Scale(domain=drawn)),
        opacity=alt.condition(_SEEN, alt.value(1), alt.value(0.08)),
        tooltip=[alt.Tooltip(f"{key}:N") for key in ("hardware", "size", "ratio", "outcome")],
    )
    x = _log_axis(alt.X("value:Q"), domain, TIMES_LABEL, f"compute speedup over {grid.comparison.baseline}")
    ratios = base.transform_filter("isValid(datum.value)").encode(color=_machine_colour(grid))
    bounded = ratios.transform_filter("isValid(datum.low)")
    faint = alt.condition("datum.outcome == 'undecided'", alt.value(0.15), alt.value(0.55))
    chart = alt.layer(
        ratios.mark_bar(height={"band": 0.72}).encode(x=x, x2=alt.datum(1), fillOpacity=faint),
        alt.Chart(alt.Data(values=[{}])).mark_rule(style="one", strokeWidth=1.5).encode(x=alt.datum(1)),
        bounded.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q"),
        ratios.mark_point(filled=True, size=55).encode(x="value:Q", shape=_machine_shape(grid)),
        ratios.mark_text(align="left", dx=8).encode(x="end:Q", text="label:N", color=alt.Undefined),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(align="left", dx=8, fontStyle="italic", style="quiet")
        .encode(x=alt.datum(1), text="label:N"),
    )
    told = f"Compute speedup of {group.title} over {grid.comparison.baseline}, 95 % intervals, on a log axis."
    return Panel(group.title, told, chart.properties(height=alt.Step(19)))
