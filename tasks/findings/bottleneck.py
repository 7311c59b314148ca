"""The bound of each cell, by its machine's ceilings in the same run."""

from collections.abc import Sequence
from dataclasses import replace

from tasks.results.model import Summary
from tasks.results.repeats import Repeats
from workloads.harness.records.case import Cell
from workloads.harness.roofline.bounds import bounds
from workloads.harness.roofline.roofline import UNEXPLAINED, Bound, percent


def bottlenecks(cells: Sequence[Repeats]) -> dict[Cell, Bound]:
    return {row.record.cell: row.bound for row in bounds([r for cell in cells for r in cell.usable])}


def with_bounds(summaries: Sequence[Summary], cells: Sequence[Repeats]) -> tuple[Summary, ...]:
    found = bottlenecks(cells)
    return tuple(replace(summary, bound=found.get(summary.cell)) for summary in summaries)


def bound_text(bound: Bound) -> str:
    """Return such as `compute, 83 %`; `unexplained` if nothing explains half."""
    is_explained = bound.by != UNEXPLAINED and bound.share is not None
    return f"{bound.by}, {percent(bound.share or 0.0)}" if is_explained else bound.by
