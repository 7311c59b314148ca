"""Rules for a published table as a whole: time in no row, one speedup among several."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tasks.published.rules import cold, copies
from tasks.published.table import (
    FLOATS,
    PublishedColumn,
    PublishedTable,
    TableFlaw,
    TableRow,
    beyond,
    is_time,
    others,
    ratio,
)
from tasks.results.format import significant
from tasks.results.values import Estimate

Ways = list[tuple[str, Estimate]]
BY_TOTAL, BY_ROWS = "by the total", "by the sum of its rows"


def missing(table: PublishedTable) -> Iterator[TableFlaw]:
    """Report time in the total that is in no row, or in the rows but not in the total, beyond rounding."""
    lost, doubled = [], []
    for index, column in enumerate(table.times):
        total, rows = table.total.times[index] if table.total else None, sums(table.rows, index)
        if total is None or not is_time(total) or rows is None or column.each:
            continue
        rest = total.value - rows.value
        amount = f"{significant(abs(rest), 3)} {column.unit}"
        whole = f"of {total.text} {column.unit} ({100 * (abs(rest) / total.value):.0f} %) in {column.header}"
        if total.low > (rows.high or 0.0) * (1 + FLOATS):
            lost.append(f"{amount} {whole}")
        elif total.high * (1 + FLOATS) < (rows.low or 0.0):
            doubled.append(f"{amount} {whole}")
    name = table.total.name if table.total else ""
    if lost:
        text = f"{' and '.join(lost)} of {name} are in no row: start-up, transfers and idling need rows too"
        yield TableFlaw("seconds in no row", (name,), text)
    if doubled:
        text = f"the rows add up to more than {name}, by {' and '.join(doubled)}"
        yield TableFlaw("seconds that are not in the total", (name,), text)


def sums(rows: Sequence[TableRow], index: int) -> Estimate | None:
    """Sum a column, with the bounds of its rounding; None if a row has no number or no time."""
    times = [row.times[index] for row in rows]
    timed = [printed for printed in times if printed and 0 <= printed.value < math.inf]
    if not timed or len(timed) != len(times):
        return None
    low, high = (
        math.fsum(bounds) for bounds in zip(*((max(p.low, 0.0), p.high) for p in timed), strict=True)
    )
    return Estimate(math.fsum(p.value for p in timed), low, high)


def overall(table: PublishedTable, side: int) -> Ways:
    """Compute the speedup of the whole in one column, in every way that it can be taken."""
    speedups: Ways = []
    total = ratio(table.total, table.times, table.base, side) if table.total else None
    if total:
        speedups.append((BY_TOTAL, total))
    warm = table.rows[1:] if any(cold(table, index) for index in (table.base, side)) else table.rows
    twins = {id(row) for rows in copies(table) for row in rows[1:]}
    sound = [row for row in warm if id(row) not in twins]
    without = " and ".join(
        words for words, fewer in (("the cold first row", warm is not table.rows), ("copies", twins)) if fewer
    )
    ways: list[tuple[str, Sequence[TableRow]]] = [("", table.rows)]
    ways += [(" without the cold first row", warm)] * (warm is not table.rows)
    speedups += [(f"{BY_ROWS}{more}", e) for more, rows in ways if (e := _by_sum(table, rows, side))]
    ways = [("", table.rows), *([(f" without {without}", sound)] if without else [])]
    speedups += [(f"by geometric mean{more}", e) for more, rows in ways if (e := _geomean(table, rows, side))]
    return speedups


def headline(table: PublishedTable, side: int, ways: Ways) -> TableFlaw | None:
    """Report a speedup of the whole that differs between its total and its rows, beyond rounding."""
    by = dict(ways)
    if BY_TOTAL not in by or BY_ROWS not in by or not beyond(by[BY_TOTAL], by[BY_ROWS]):
        return None
    listed = [f"{significant(estimate.value, 3)}× {way}" for way, estimate in ways]
    header = table.times[side].header
    text = f"the whole in {header} is {', '.join(listed[:-1])} and {listed[-1]}: say which is meant"
    return TableFlaw("one speedup of the whole among several", (), text)


def orientation(table: PublishedTable) -> PublishedTable:
    """Return the table with the base that its printed speedups use, if it has only two columns of times.

    Some print new time / old time; whichever way more rows agree with is meant.
    """
    if len(table.times) != 2 or not table.speedups:
        return table
    side = others(table)[0]
    straight, turned = (_agreeing(table, *pair) for pair in ((table.base, side), (side, table.base)))
    if turned <= straight:
        return table
    return _turned(table, side)


def _turned(table: PublishedTable, side: int) -> PublishedTable:
    speedups = tuple(replace(column, times_index=table.base) for column in table.speedups)
    return replace(table, base=side, speedups=speedups)


def _agreeing(table: PublishedTable, base: int, side: int) -> int:
    agreeing = 0
    for row in table.rows:
        bounds = ratio(row, table.times, base, side)
        for printed in row.speedups:
            if bounds and printed and not beyond(Estimate(printed.value, printed.low, printed.high), bounds):
                agreeing += 1
    return agreeing


def _by_sum(table: PublishedTable, rows: Sequence[TableRow], side: int) -> Estimate | None:
    over, under = sums(rows, table.base), sums(rows, side)
    if over is None or under is None or not over.value or not under.value:
        return None
    scale = _scale(table.times, table.base, side)
    high = (over.high or 0.0) / under.low * scale if under.low else math.inf
    return Estimate(over.value / under.value * scale, (over.low or 0.0) / (under.high or 1.0) * scale, high)


def _geomean(table: PublishedTable, rows: Sequence[TableRow], side: int) -> Estimate | None:
    ratios = [ratio(row, table.times, table.base, side) for row in rows]
    present = [each for each in ratios if each]
    if not present or len(present) != len(ratios):
        return None
    parts = zip(
        *((e.value, e.low or 0.0, math.inf if e.high is None else e.high) for e in present), strict=True
    )
    return Estimate(*(math.exp(math.fsum(map(_log, part)) / len(present)) for part in parts))


def _log(value: float) -> float:
    return math.log(value) if value else -math.inf


def _scale(times: tuple[PublishedColumn, ...], base: int, side: int) -> float:
    return times[base].scale / times[side].scale
