"""Whole jobs: loss of batches, memory of ranks."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from tasks.report.charts.panel import ChartPanel, chart_of, machine_colour, panel_of, shown, tooltip
from tasks.report.charts.theme import padded
from tasks.report.grid import Grid, by_cell, median_of
from tasks.results.wording import size_text
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record

POINTS = 200  # of a line that can be distinguished in a panel
MOST_PANELS = 24


def job_records(records: Sequence[Record]) -> list[Record]:
    """Return each cell's valid job with the median time."""
    jobs = (r for r in records if counts(r) and r.wall and r.wall.whole and r.training)
    return [median_of(same, lambda record: record.compute_s or 0.0) for same in by_cell(jobs).values()]


def loss_panels(records: Sequence[Record], grid: Grid) -> list[ChartPanel]:
    """Return a panel per case, a line per machine."""
    by_case: dict[Case, list[Record]] = {}
    for record in job_records(records):
        if record.training and len(record.training.losses) > 1:
            by_case.setdefault(record.case, []).append(record)
    return [_loss(grid, case, matches) for case, matches in list(by_case.items())[:MOST_PANELS]]


def memory_panels(records: Sequence[Record]) -> list[ChartPanel]:
    """Return a panel per cell, a line per rank."""
    matches = [record for record in job_records(records) if record.training and record.training.memory]
    return [_memory(record) for record in matches[:MOST_PANELS]]


def thinned(values: Sequence[float], points: int = POINTS) -> list[tuple[int, float]]:
    """Return values at even distances with places, and the last."""
    last, stride = len(values) - 1, max(1, math.ceil(len(values) / points))
    return [(i, value) for i, value in enumerate(values) if i % stride == 0 or i == last]


def _loss(grid: Grid, case: Case, matches: Sequence[Record]) -> ChartPanel:
    rows: list[dict[str, Any]] = [
        {"hardware": record.hardware, "step": step + 1, "loss": float(f"{loss:.5g}")}
        for record in matches
        for step, loss in thinned(record.training.losses if record.training else ())
    ]
    log = all(row["loss"] > 0 for row in rows)
    scale = alt.Scale(type="log", domain=list(padded([row["loss"] for row in rows], 1.1)), nice=False)
    y = alt.Y("loss:Q", title="loss, log axis", scale=scale, axis=alt.Axis(tickCount=5))
    chart = chart_of(rows).mark_line(strokeWidth=1.3).encode(
        x=alt.X("step:Q", title="step", axis=alt.Axis(tickCount=6)),
        y=y if log else alt.Y("loss:Q", title="loss"),
        color=machine_colour(grid),
        opacity=shown(),
        tooltip=tooltip("hardware", "step", "loss"),
    )  # fmt: skip
    title = _title(case)
    return panel_of(title, f"Loss of {title} by step, one line for each machine.", 200, chart)


def _memory(record: Record) -> ChartPanel:
    memory = record.training.memory if record.training else ()
    rows: list[dict[str, Any]] = []
    for at in memory:
        if at.allocated_bytes > 0:  # 0: unknown
            gib, peak = (round(held / 2**30, 3) for held in (at.allocated_bytes, at.peak_bytes))
            rows.append({"rank": f"rank {at.rank}", "step": at.step, "gib": gib, "peak": peak})
    ranks = list(dict.fromkeys(row["rank"] for row in rows))
    chart = (
        chart_of(rows)
        .mark_line(point=alt.OverlayMarkDef(size=18), strokeWidth=1.3)
        .encode(
            x=alt.X("step:Q", title="step", axis=alt.Axis(tickCount=6)),
            y=alt.Y("gib:Q", title="allocated, GiB", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5)),
            color=alt.Color("rank:N", scale=alt.Scale(domain=ranks), legend=alt.Legend(columns=4)),
            tooltip=tooltip("rank", "step", "gib", "peak"),
        )
    )
    title = f"{_title(record.case)}, {record.hardware}"
    return panel_of(title, f"Memory of {title} by step, one line for each rank.", 200, chart)


def _title(case: Case) -> str:
    return f"{case.workload} {size_text(case)} · {case.terms}"
