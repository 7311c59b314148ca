"""What bounds each cell of a run, by the ceilings that the same run measured on the same machine."""

from collections.abc import Sequence
from dataclasses import replace

from tasks.results.model import Summary
from tasks.results.repeats import Repeats
from workloads.harness.records.case import Cell
from workloads.harness.roofline.bounds import bounds
from workloads.harness.roofline.roofline import UNEXPLAINED, Bound, percent


def bottlenecks(cells: Sequence[Repeats]) -> dict[Cell, Bound]:
    """The bound of every cell with a usable repeat.

    Only usable repeats count, for ceilings too: a product that the plausibility gate refused is no ceiling.
    """
    return {row.record.cell: row.bound for row in bounds([r for cell in cells for r in cell.usable])}


def with_bounds(summaries: Sequence[Summary], cells: Sequence[Repeats]) -> tuple[Summary, ...]:
    """The summaries, each with what bounds its cell."""
    matches = bottlenecks(cells)
    return tuple(replace(summary, bound=matches.get(summary.cell)) for summary in summaries)


def bound_text(bound: Bound) -> str:
    """A bound in a few words, such as `compute, 83 %`; `unexplained` where nothing explains half."""
    return (
        bound.by if bound.by == UNEXPLAINED or bound.share is None else f"{bound.by}, {percent(bound.share)}"
    )
