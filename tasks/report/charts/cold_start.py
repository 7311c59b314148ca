"""The time before a first result, as waterfall and stacked bars."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import altair as alt

from tasks.report.charts.panel import ChartPanel, bar_axis, bar_names, chart_of, tooltip
from tasks.report.grid import CaseGroup, Grid, median_of
from tasks.report.page_limits import MOST_GROUPS
from tasks.results.format import format_seconds
from tasks.results.summaries import COLD_PHASES
from tasks.results.wording import size_text
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record

Key = TypeVar("Key")


def cold_panels(records: Sequence[Record], grid: Grid) -> list[ChartPanel]:
    """Return a panel per workload, by each cell's median repeat."""
    medians = _medians(records, lambda record: (record.hardware, record.case))
    panels = ((group, _rows(grid, group, medians)) for group in grid.groups)
    return [_panel(group, rows) for group, rows in panels if rows]


def waterfall_panels(records: Sequence[Record], grid: Grid) -> list[ChartPanel]:
    """Return a panel per machine, by its median cold start."""
    medians = _medians(records, lambda record: record.hardware)
    shown = {name: medians[name] for name in grid.names if name in medians}
    most = max((_cold_s(record) for record in shown.values()), default=0.0)
    return [_waterfall(name, record, most) for name, record in list(shown.items())[:MOST_GROUPS]]


def _waterfall(name: str, record: Record, most: float) -> ChartPanel:
    """Use one scale for all machines, and put times into names, because they would cover bars."""
    rows: list[dict[str, Any]] = []
    start = 0.0
    for phase, seconds in _phases(record).items():
        if seconds > 0:
            word, time = phase.replace("_", " "), format_seconds(seconds)
            row = {"phase": word, "time": time, "row": f"{word}, {time}"}
            rows.append(row | {"start": start, "end": start + seconds})
            start += seconds
    axis = alt.Axis(labelExpr="datum.label + ' s'", tickCount=4)
    scale = alt.Scale(domain=[0, most or 1.0], nice=False)
    bars = chart_of(rows).mark_bar(height=12, minBandSize=1)
    chart = bars.encode(
        y=alt.Y("row:N", sort=[row["row"] for row in rows], title=None),
        x=alt.X("start:Q", axis=axis, scale=scale, title="seconds"),
        x2=alt.X2("end:Q"),
        color=_phase_colour(),
        tooltip=tooltip("phase", "time"),
    )
    sentences = f"Cold start of {name} as a waterfall: {format_seconds(start)} in {len(rows)} phases."
    title = f"{name}, {record.case.workload} {size_text(record.case)}: {format_seconds(start)}"
    return ChartPanel(title, sentences, alt.layer(chart).properties(height=24 * len(rows) + 10))


def _phase_colour() -> alt.Color:
    names = [phase.replace("_", " ") for phase in COLD_PHASES]
    return alt.Color("phase:N", scale=alt.Scale(domain=names, range="ordinal"), legend=None)


def _phases(record: Record) -> dict[str, float]:
    phases_s = record.fresh_phases_s
    return {name: phases_s[name] for name in COLD_PHASES if name in phases_s}


def _cold_s(record: Record) -> float:
    return sum(_phases(record).values())


def _medians(records: Sequence[Record], key: Callable[[Record], Key]) -> dict[Key, Record]:
    repeats: dict[Key, list[Record]] = {}
    for record in records:
        if counts(record) and _phases(record):
            repeats.setdefault(key(record), []).append(record)
    return {key: median_of(members, _cold_s) for key, members in repeats.items()}


def _rows(grid: Grid, group: CaseGroup, medians: dict[tuple[str, Case], Record]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for case in group.cases:
        for name in grid.names:
            record = medians.get((name, case))
            bar, start = {"bar": f"{name}, {size_text(case)}", "hardware": name}, 0.0
            for phase, seconds in (_phases(record) if record else {}).items():
                words = {"phase": phase.replace("_", " "), "time": format_seconds(seconds)}
                rows.append(bar | words | {"start": start, "end": start + seconds})
                start += seconds
    return rows


def _panel(group: CaseGroup, rows: list[dict[str, Any]]) -> ChartPanel:
    totals = list({row["bar"]: row for row in rows}.values())
    axis = alt.Axis(labelExpr="datum.label + ' s'", tickCount=5)
    bars = chart_of(rows).mark_bar(height=9, yOffset=7, style="gap", strokeWidth=0.75)
    chart = alt.layer(
        bars.encode(
            y=bar_axis(rows),
            x=alt.X("start:Q", axis=axis, title="seconds before the first result"),
            x2=alt.X2("end:Q"),
            color=_phase_colour(),
            tooltip=tooltip("bar", "phase", "time"),
        ),
        bar_names(totals),
    )
    text = f"Seconds by phase before the first result of {group.title}, one bar for each machine and size."
    return ChartPanel(group.title, text, chart.properties(height=30 * len(totals)))
