"""Bounds: no negative time, no median above the maximum."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from statistics import median

from tasks.plausibility.physics import MARGIN
from tasks.published.columns import words_of
from tasks.published.rounded import cell
from tasks.published.table import ColumnKind, Compared, PublishedTable, TableFlaw, TableRow
from tasks.results.format import listed

APART = 300.0  # factor between two means or medians of a sample that only a wrong unit explains
SLACK = 0.02  # relative, for percentiles of different runs, or interpolated in different ways
MOST_SHARE = 100.5  # percent of a whole
_PEAKS, _OF_STEPS = (
    {"peak", "roofline"},
    {"mfu", "hfu"},
)  # a boost clock can exceed a peak, a whole step cannot
_BEYOND_WHOLE = {"cpu", "core", "cores", "change", "energy", "cost", "price", "memory", "host"}


def not_measured(table: PublishedTable) -> Iterator[TableFlaw]:
    """Report negative and infinite times and rates; a zero is a doubt."""
    for index in table.of(ColumnKind.TIME, ColumnKind.RATE):
        column, zeros = table.columns[index], []
        for row in table.rows:
            value = row.cells[index]
            if value and value.value == 0:
                zeros.append(row.name)
            elif value and not value.above_zero:
                text = f"{row.name} has {value.text} in {column.header}, which is no {column.kind.value}"
                yield TableFlaw("not a measure", (row.name,), text)
        if zeros and len(zeros) < len(table.rows):
            has = "has" if len(zeros) == 1 else "have"
            names = listed(zeros[:3])
            text = f"{names} {has} 0 in {column.header}: below its digits, so no ratio can be taken"
            yield TableFlaw("not a measure", tuple(zeros), text, doubt=True)


def disordered(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    """Report a minimum above a mean, or a percentile above a higher one."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index in table.of(ColumnKind.TIME):
        column = table.columns[index]
        if column.statistic:
            groups[column.subject, column.each].append(index)
    for indices in groups.values():
        percentiles = {s for i in indices if _percentile(s := table.columns[i].statistic)}
        chains = [["min", "mean", "max"], ["min", *sorted(percentiles, key=_percentile), "max"]]
        yield from _another_unit(table, indices)
        seen: set[str] = set()
        orders = [[i for s in chain for i in indices if table.columns[i].statistic == s] for chain in chains]
        yield Compared("order of percentiles", len(table.rows) * max(max(map(len, orders)) - 1, 0))
        for row in table.rows:
            for ordered in orders:
                flaw = _inverted(table, row, ordered)
                if flaw and row.name not in seen:
                    seen.add(row.name)
                    yield flaw


def _another_unit(table: PublishedTable, indices: list[int]) -> Iterator[TableFlaw]:
    """Report a mean or median a thousand times the other in every row."""
    middles = [i for i in indices if table.columns[i].statistic not in ("min", "max")]
    for one, other in combinations(middles, 2):
        pairs = [(a, b) for row in table.rows if (a := cell(row, one)) and (b := cell(row, other))]
        ratios = [a.value / b.value for a, b in pairs]
        if ratios and (min(ratios) > APART or max(ratios) < 1 / APART):
            first, second = table.columns[one].header, table.columns[other].header
            text = f"{first} is {median(ratios):.2g} times {second} in every row: one of their units is wrong"
            yield TableFlaw("a unit off", (), text)


def above_whole(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    """Report shares above 100 %."""
    for index in table.of(ColumnKind.SHARE):
        column = table.columns[index]
        words = words_of(column.header)
        if column.subject & _BEYOND_WHOLE:
            continue
        yield Compared("shares of a whole", sum(row.cells[index] is not None for row in table.rows))
        for row in table.rows:
            value = row.cells[index]
            if value and value.low > MOST_SHARE:
                text = f"{row.name} has {value.text} in {column.header}, more than the whole"
                nominal = bool(words & _PEAKS) and not words & _OF_STEPS
                doubt = nominal and value.low <= 100 * MARGIN
                yield TableFlaw("more than the whole", (row.name,), text, doubt)


def _inverted(table: PublishedTable, row: TableRow, chain: list[int]) -> TableFlaw | None:
    present = [(i, value) for i in chain if (value := row.cells[i]) and value.above_zero]
    for (less, small), (more, large) in combinations(present, 2):
        named = [table.columns[less].statistic, table.columns[more].statistic]
        slack = 0.0 if named == ["min", "max"] else SLACK
        if named[0] != named[1] and small.value - small.step > (large.value + large.step) * (1 + slack):
            low, high = table.columns[less].header, table.columns[more].header
            text = f"{row.name} has {small.text} in {low}, above {large.text} in {high}"
            return TableFlaw("statistics out of order", (row.name,), text)
    return None


def _percentile(statistic: str) -> float:
    match = re.fullmatch(r"p(\d+(?:\.\d+)?)", statistic)
    return float(match[1]) if match else 0.0
