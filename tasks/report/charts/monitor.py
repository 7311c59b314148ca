"""Utilisation, memory and power over time."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.report.charts.panel import ChartPanel, chart_of, machine_colour, panel_of, shown, tooltip
from tasks.report.charts.training import thinned
from tasks.report.grid import Grid
from tasks.results.wording import size_text
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record

MOST_GROUPS = 6  # workloads, each with one panel for each quantity
MOST_POINTS = 240  # of all lines in a panel
GPU, CPU = "gpu_utilisation_share", "cpu_percent"
UTILISATION, MEMORY, POWER = "utilisation, %", "memory, GiB", "power, W"


def monitor_panels(records: Sequence[Record], grid: Grid) -> list[ChartPanel]:
    """Return a panel per quantity and workload, for its largest monitored case.

    The line is the machine's longest repeat.
    """
    longest: dict[tuple[str, Case], Record] = {}
    for record in records:
        key, watched = (record.hardware, record.case), len(record.monitor.get("t_s", ())) > 2
        if counts(record) and watched and record.wall_s > (longest[key].wall_s if key in longest else -1.0):
            longest[key] = record
    largest: dict[str, list[Record]] = {}
    for group in grid.groups:
        case = next((c for c in reversed(group.cases) if any((n, c) in longest for n in grid.names)), None)
        if case:
            matches = [longest[name, case] for name in grid.names if (name, case) in longest]
            largest[f"{group.title}, {size_text(case)}"] = matches
    panels = (
        _panel(grid, title, quantity, matches)
        for title, matches in list(largest.items())[:MOST_GROUPS]
        for quantity in (UTILISATION, MEMORY, POWER)
    )
    return [panel for panel in panels if panel is not None]


def series(record: Record, quantity: str) -> list[tuple[float, float]]:
    """Return seconds since the process's start, with values; empty if unknown.

    GPU: as the driver reports. CPU: share of busy threads, resident memory.
    """
    columns, gpu = record.monitor, record.device != "cpu"
    name, factor = {
        UTILISATION: (GPU, 100.0) if gpu else (CPU, 1.0 / max(record.threads or 1, 1)),
        MEMORY: ("gpu_memory_used_bytes" if gpu else "rss_bytes", 2.0**-30),
        POWER: ("gpu_power_w", 1.0),
    }[quantity]
    if name not in columns:
        return []
    return [(t, factor * value) for t, value in zip(columns["t_s"], columns[name], strict=True)]


def _panel(grid: Grid, title: str, quantity: str, records: Sequence[Record]) -> ChartPanel | None:
    rows: list[dict[str, Any]] = []
    for record in records:
        points = series(record, quantity)
        window = (record.probes.get("window_start_s"), record.probes.get("window_end_s"))
        for index, value in thinned([value for _, value in points], max(20, MOST_POINTS // len(records))):
            at = points[index][0]
            sampling = window[0] is not None and window[1] is not None and window[0] <= at <= window[1]
            rows.append(
                {
                    "hardware": record.hardware,
                    "at": round(at, 2),
                    "value": float(f"{value:.4g}"),
                    "window": "samples" if sampling else "around",
                }
            )
    if not rows:
        return None
    scale = alt.Scale(zero=True, nice=True)
    base = chart_of(rows).encode(
        x=alt.X("at:Q", title="seconds since the process started", axis=alt.Axis(tickCount=5)),
        y=alt.Y("value:Q", title=quantity, scale=scale, axis=alt.Axis(tickCount=4)),
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "at", "value", "window"),
    )
    layers = [base.mark_line(strokeWidth=1.3)]
    if any(row["window"] == "samples" for row in rows):
        within = base.transform_filter("datum.window == 'samples'")
        layers.append(within.mark_point(filled=True, size=16))
    description = f"{quantity.partition(',')[0]} of {title} over time, one line for each machine."
    return panel_of(f"{title}: {quantity}", description.capitalize(), 150, *layers)
