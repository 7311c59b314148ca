"""Models: times, training results, sizes."""

from collections.abc import Sequence
from typing import Any

from tasks.report.grid import CaseGroup, Grid, by_cell
from tasks.results.format import format_seconds
from tasks.results.wording import size_text, verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record
from workloads.harness.records.text import step_text
from workloads.harness.roofline.roofline import percent

EVENTS, HOST = "by events", "host clock (CPU run)"
Cells = dict[tuple[str, Case], list[Record]]


def model_groups(records: Sequence[Record], grid: Grid) -> list[tuple[CaseGroup, Cells]]:
    """Return cases with parameters."""
    cells = by_cell(records)
    with_model = {r.case for r in records if r.training or (r.work and r.work.parameters)}
    return [(group, cells) for group in grid.groups if any(case in with_model for case in group.cases)]


def model_rows(records: Sequence[Record], grid: Grid) -> list[dict[str, Any]]:
    """Return a table per model."""
    tables: list[dict[str, Any]] = []
    for group, cells in model_groups(records, grid):
        measured = [cells[name, case] for case in group.cases for name in grid.names if (name, case) in cells]
        tables.append({"title": group.title, "rows": [_row(grid, repeats) for repeats in measured]})
    return tables


def device_times(records: Sequence[Record], grid: Grid) -> list[dict[str, Any]]:
    """Return a row per case, with each machine's seconds and source."""
    return [
        {
            "case": f"{group.title} {size_text(case)}",
            "cells": [_device_cell(cells.get((name, case), [])) for name in grid.names],
        }
        for group, cells in model_groups(records, grid)
        for case in group.cases
    ]


def device_time(record: Record) -> tuple[float, str] | None:
    """Return a step's time and a remark."""
    if record.device_s is not None:
        waits = f"waits for its host for {percent(record.waiting_share or 0.0)} of a step"
        return record.device_s, waits if record.waits else "" if record.busy_share is not None else EVENTS
    return (record.wall.median_s, HOST if record.device == "cpu" else "host clock") if record.wall else None


def _row(grid: Grid, repeats: Sequence[Record]) -> dict[str, Any]:
    first = repeats[0]
    last = next((r for r in reversed(repeats) if counts(r)), repeats[-1])
    summary = grid.summaries.get((first.hardware, first.case))
    texts = [step_text(r) if r.compute_s else verdict_text(r.verdict) for r in repeats]
    parameters = next((r.work.parameters for r in repeats if r.work and r.work.parameters), None)
    return {
        "hardware": first.hardware,
        "size": size_text(first.case),
        "raw": ", ".join(text.replace(" ", "\N{NO-BREAK SPACE}") for text in texts),
        "time": format_seconds(summary.compute_s if summary else None),
        "what": "whole job" if first.wall and first.wall.whole else "step",
        "parameters": f"{parameters:,}" if parameters else "–",
        "quality": quality_text(last),
    }


def quality_text(record: Record) -> str:
    """Return such as `loss 2.303 to 0.412; accuracy 0.981, target 0.97`, or a dash."""
    training = record.training
    if training is None:
        return "–"
    text = f"loss {training.first_loss:.4g} to {training.last_loss:.4g}"
    if training.value is not None and training.metric:
        text += f"; {training.metric} {training.value:.4g}"
        text += f", target {training.target:.4g}" if training.target is not None else ""
    return text


def _device_cell(repeats: Sequence[Record]) -> dict[str, str]:
    matches = [pair for record in repeats if counts(record) and (pair := device_time(record))]
    if not matches:
        return {"text": verdict_text(repeats[0].verdict) if repeats else "not measured", "source": ""}
    middle, source = sorted(matches)[(len(matches) - 1) // 2]
    return {"text": format_seconds(middle), "source": source}
