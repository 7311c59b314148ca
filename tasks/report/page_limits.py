"""Limits of a page.

The page states left-out parts; files have everything.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tasks.report.grid import CaseGroup, Grid

MOST_GROUPS = 12  # panels of one kind
MOST_BARS = 48  # cells in one panel
MOST_DETAILED = 400  # cells of the comparison with all their details
MOST_CELLS = 5_000  # cells of the map and of the comparison
MOST_ROWS = 300  # of every other table
MOST_SENTENCES = 40  # of a list
T = TypeVar("T")


def readable(grid: Grid, cells: int = MOST_BARS) -> Grid:
    """Return the first groups, with sizes at even distances."""
    most = max(2, cells // max(len(grid.names), 1))
    return replace(grid, groups=tuple(_thinned(group, most) for group in grid.groups[:MOST_GROUPS]))


def undrawn(grid: Grid) -> str:
    """Return the parts that `readable` leaves out, if any."""
    drawn = readable(grid)
    parts = []
    if len(drawn.groups) < len(grid.groups):
        parts.append(f"the first {len(drawn.groups)} of {len(grid.groups)} workloads")
    most = max((len(group.cases) for group in drawn.groups), default=0)
    if any(len(a.cases) < len(b.cases) for a, b in zip(drawn.groups, grid.groups, strict=False)):
        parts.append(f"at most {most} sizes of each")
    return f"The charts show {', '.join(parts)}; comparison.csv has all." if parts else ""


def firsts(values: Sequence[T], most: int = MOST_ROWS) -> tuple[Sequence[T], int]:
    """Return also the number of others."""
    return values[:most], max(len(values) - most, 0)


def _thinned(group: CaseGroup, most: int) -> CaseGroup:
    count = len(group.cases)
    if count <= most:
        return group
    places = dict.fromkeys(round(i * (count - 1) / (most - 1)) for i in range(most))
    cases = tuple(group.cases[index] for index in places)
    return replace(group, cases=cases, work={c: group.work[c] for c in cases if c in group.work})
