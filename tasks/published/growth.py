"""Times that must grow with work, and numbers a thousand times off."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from statistics import median

from tasks.published.rounded import cell
from tasks.published.sizes import more_work
from tasks.published.table import MEASURES, ColumnKind, Printed, PublishedTable, TableFlaw, TableRow
from tasks.results.format import significant
from tasks.results.values import Estimate

TWICE = 2.0  # a time that falls by less with more work can be noise or a size that suits the device better
MOST_ROWS = 100  # rows that are compared with each other
SLIP = 1000.0
NEAR = 4.0  # factor around a thousand within which a number is a unit off
CALM = 4.0  # factor within which its neighbours stay
LEAST_ROWS = 4  # with three, a slip is a doubt
STEEPEST = 5.0  # exponent of a size, which no algorithm of a published table exceeds


def cold(table: PublishedTable, index: int) -> tuple[TableRow, TableRow, Estimate] | None:
    """Return a first row that took twice as long as one of more work, that row, and the excess."""
    column = table.columns[index]
    if not table.rows or column.each or column.fixed or column.kind is not ColumnKind.TIME:
        return None
    first, mine = table.rows[0], cell(table.rows[0], index)
    timed = [(value, row) for row in table.rows[1:] if more_work(row, first) and (value := cell(row, index))]
    if mine is None or not timed:
        return None
    other, row = min(timed, key=lambda pair: pair[0].value)
    if mine.low <= TWICE * other.high:
        return None
    return first, row, Estimate(mine.value - other.value, mine.low - other.high, mine.high)


def cold_first(table: PublishedTable) -> Iterator[TableFlaw]:
    """Ask about a first row that seems to include one-off cost."""
    for index in table.of(ColumnKind.TIME):
        if cold_start := cold(table, index):
            first, larger, lost = cold_start
            column, mine, its = table.columns[index], cell(first, index), cell(larger, index)
            least = significant((lost.low or 0.0) / column.scale, 2)
            text = (
                f"{first.name}, the first row, took {shown(mine)} in {column.header}, {larger.name} only "
                f"{shown(its)} for more work: at least {least} {column.unit or 'of it'} were spent once, on "
                "a cold start, which belongs in a separate row"
            )
            yield TableFlaw("cold first row", (first.name, larger.name), text, doubt=True)


def not_growing(table: PublishedTable) -> Iterator[TableFlaw]:
    """Ask about rows with more work in less than half the time."""
    for index in table.some(ColumnKind.TIME):
        column, first = table.columns[index], cold(table, index)
        if column.each or column.fixed or column.statistic:
            continue
        worst: dict[str, tuple[float, TableRow, TableRow]] = {}
        for pair in combinations([row for row in table.rows[:MOST_ROWS] if row.sizes], 2):
            for larger, smaller in (pair, pair[::-1]):
                more, less = cell(larger, index), cell(smaller, index)
                is_first = first is not None and smaller is first[0]
                gain = less.low / more.high if more and less and not is_first else 0.0
                if gain > TWICE and gain > worst.get(larger.name, (0.0,))[0] and more_work(larger, smaller):
                    worst[larger.name] = gain, larger, smaller
        for _, larger, smaller in worst.values():
            text = (
                f"{larger.name} took {shown(cell(larger, index))} in {column.header}, {smaller.name} "
                f"{shown(cell(smaller, index))} for less work"
            )
            yield TableFlaw("time that falls as work grows", (larger.name, smaller.name), text, doubt=True)


def slipped(table: PublishedTable) -> Iterator[TableFlaw]:
    """Report numbers a thousand times off other columns or sizes."""
    seen: set[tuple[str, int]] = set()
    for flaw, key in (*_beside_columns(table), *_along_sizes(table)):
        if key not in seen:
            seen.add(key)
            yield flaw


def shown(value: Printed | None) -> str:
    return value.text if value else "-"


def _beside_columns(table: PublishedTable) -> Iterator[tuple[TableFlaw, tuple[str, int]]]:
    for kind in MEASURES:
        indices = [i for i in table.some(kind) if not table.columns[i].each]
        votes: dict[tuple[int, int], int] = defaultdict(int)
        logs = {
            i: {row: math.log(v.value) for row, line in enumerate(table.rows) if (v := cell(line, i))}
            for i in indices
        }
        for one, other in combinations(indices, 2):
            right = logs[other]  # the ratio of two numbers can be out of range
            ratios = {row: log - right[row] for row, log in logs[one].items() if row in right}
            for row in _stragglers(ratios):
                votes[row, one] += 1
                votes[row, other] += 1
        for (row, index), count in votes.items():
            most = max(c for (r, _), c in votes.items() if r == row)
            others = sum(row in of_column for of_column in logs.values()) - 1
            if count == most and 2 * count >= others and _alone(table, row, index, indices):
                flaw = _slip(table, row, index, "compared with its columns")
                columns = table.columns  # the tail of a few percentiles can be long
                few = len(table.rows) < LEAST_ROWS
                flaw = replace(
                    flaw, doubt=few or any(_has_units(table, i) or columns[i].statistic for i in indices)
                )
                yield flaw, (table.rows[row].name, index)


def _has_units(table: PublishedTable, index: int) -> bool:
    """Return whether a column has several units: a program writes them without slips."""
    texts = [value.text.lower() for row in table.rows if (value := row.cells[index])]
    return len({unit for text in texts if (unit := re.sub(r"[^a-zµμ/]", "", text))}) > 1


def _stragglers(ratios: dict[int, float]) -> list[int]:
    if len(ratios) < LEAST_ROWS - 1:
        return []
    off = []
    ordered = sorted(ratios, key=lambda row: ratios[row])
    for row, others in ((ordered[0], ordered[1:]), (ordered[-1], ordered[:-1])):
        middle = ratios[others[len(others) // 2]]
        calm = ratios[others[-1]] - ratios[others[0]] < 2 * math.log(CALM)
        if calm and abs(abs(ratios[row] - middle) - math.log(SLIP)) < math.log(NEAR):
            off.append(row)
    return off


def _alone(table: PublishedTable, row: int, index: int, indices: Sequence[int]) -> bool:
    if len(indices) > 2:
        return True
    distances = {}
    for each in indices:
        values = [
            math.log(v.value) for r, line in enumerate(table.rows) if r != row and (v := cell(line, each))
        ]
        mine = cell(table.rows[row], each)
        distances[each] = abs(math.log(mine.value) - median(values)) if mine and values else 0.0
    return distances[index] == max(distances.values())


def _along_sizes(table: PublishedTable) -> Iterator[tuple[TableFlaw, tuple[str, int]]]:
    """Yield times far above or below both neighbours."""
    groups: dict[tuple[str, tuple[str, ...]], list[TableRow]] = defaultdict(list)
    for row in table.rows:
        groups[row.kind, tuple(name for name, _ in row.sizes)].append(row)
    for index in table.of(ColumnKind.TIME):
        for (_, names), rows in groups.items():
            for row in _off_the_curve(_series(rows, names, index)):
                yield _slip(table, table.rows.index(row), index, "among its sizes"), (row.name, index)


def _series(
    rows: Sequence[TableRow], names: tuple[str, ...], index: int
) -> list[tuple[float, float, TableRow]]:
    varying = [name for name in names if len({dict(row.sizes)[name] for row in rows}) > 1]
    if not varying or any(dict(r.sizes)[v] != dict(r.sizes)[varying[0]] for r in rows for v in varying):
        return []
    points = [(math.log(dict(row.sizes)[varying[0]]), math.log(v.value), row)
              for row in rows if (v := cell(row, index)) and dict(row.sizes)[varying[0]] > 0]  # fmt: skip
    return sorted(points, key=lambda point: point[0])


def _off_the_curve(points: Sequence[tuple[float, float, TableRow]]) -> list[TableRow]:
    if len(points) < LEAST_ROWS or len({size for size, _, _ in points}) != len(points):
        return []
    off = []
    for number, (size, time, row) in enumerate(points):
        near = [points[i] for i in (number - 1, number + 1) if 0 <= i < len(points)]
        jumps = [time - other for _, other, _ in near]
        allowed = [STEEPEST * abs(size - other) + math.log(CALM) for other, _, _ in near]
        steep = all(abs(jump) > least for jump, least in zip(jumps, allowed, strict=True))
        turned = len(near) == 2 and jumps[0] * jumps[1] > 0
        lonely = len(near) == 1 and abs(abs(jumps[0]) - math.log(SLIP)) < math.log(NEAR)
        if steep and number and (turned or lonely):
            others = pairwise(point for point in points if point[2] is not row)
            if all(abs(b[1] - a[1]) <= STEEPEST * (b[0] - a[0]) + math.log(CALM) for a, b in others):
                off.append(row)
    return off


def _slip(table: PublishedTable, row: int, index: int, where: str) -> TableFlaw:
    name, column = table.rows[row].name, table.columns[index]
    value = shown(cell(table.rows[row], index))
    text = f"{name} has {value} in {column.header}, about a thousand times off {where}"
    return TableFlaw("a unit off", (name,), f"{text}: of another unit, or a slip of the point")
