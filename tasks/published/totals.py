"""Totals and averages must follow from other rows and columns."""

import math
from collections.abc import Iterator, Sequence

from tasks.published.columns import words_of
from tasks.published.copies import copies
from tasks.published.growth import cold
from tasks.published.relations import Relation, best
from tasks.published.rounded import FLOATS, beyond, cell, divided, ratio
from tasks.published.summaries import is_average, is_operation, is_total, means, sums
from tasks.published.table import MEASURES, ColumnKind, Compared, PublishedTable, TableFlaw, TableRow
from tasks.results.format import significant
from tasks.results.values import Estimate

Ways = list[tuple[str, Estimate]]
BY_TOTAL, BY_ROWS = "by the total", "by the sum of its rows"
_WHOLE = {"total", "sum", "overall", "end", "e2e", "all", "avg", "average", "latency", "pipeline"}
SLACK = 0.02  # relative: an average of unrounded numbers, or of other repeats


def wrong_sums(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    if total := total_row(table):
        yield from _total_row(table, total)
    yield from _total_columns(table)
    for row in table.sums:
        if is_average(row.name):
            yield from _averages(table, row)
    yield from _unlike_its_name(table)


def total_row(table: PublishedTable) -> TableRow | None:
    """Return the last sum of the others."""
    return next((row for row in reversed(table.sums) if is_total(row.name)), None)


def overall(table: PublishedTable, base: int, side: int) -> Ways:
    """Compute the speedup by total, by sums and by geometric means."""
    speedups: Ways = []
    total = total_row(table)
    over, under = (cell(total, index) for index in (base, side)) if total else (None, None)
    if over and under:
        speedups.append((BY_TOTAL, ratio(over, under)))
    warm = table.rows[1:] if any(cold(table, index) for index in (base, side)) else table.rows
    twins = {id(row) for rows in copies(table) for row in rows[1:]}
    sound = [row for row in warm if id(row) not in twins]
    without = " and ".join(["the cold first row"] * (warm is not table.rows) + ["copies"] * bool(twins))
    ways: list[tuple[str, Sequence[TableRow]]] = [("", table.rows)]
    ways += [(" without the cold first row", warm)] * (warm is not table.rows)
    speedups += [(f"{BY_ROWS}{more}", e) for more, rows in ways if (e := _by_sum(rows, base, side))]
    ways = [("", table.rows), *([(f" without {without}", sound)] if without else [])]
    speedups += [(f"by geometric mean{more}", e) for more, rows in ways if (e := _geomean(rows, base, side))]
    return speedups


def headline(table: PublishedTable, side: int, ways: Ways) -> TableFlaw | None:
    """Ask which speedup is meant, if total and rows differ beyond rounding."""
    by = dict(ways)
    if BY_TOTAL not in by or BY_ROWS not in by or not beyond(by[BY_TOTAL], by[BY_ROWS]):
        return None
    words = [f"{significant(estimate.value, 3)}× {way}" for way, estimate in ways]
    which = f"{', '.join(words[:-1])} and {words[-1]}"
    text = f"the whole in {table.columns[side].header} is {which}: say which is meant"
    return TableFlaw("one speedup of the whole among several", (), text, doubt=True)


def _total_row(table: PublishedTable, total: TableRow) -> Iterator[TableFlaw | Compared]:
    """Report totals below a row or unlike the sum: a doubt if no column has an exact total."""
    lost, doubled, exact = [], [], 0
    for index in table.of(ColumnKind.TIME, ColumnKind.COST):
        column, value, added = (
            table.columns[index],
            total.cells[index],
            sums(row.cells[index] for row in table.rows),
        )
        if value is None or not value.above_zero or added is None or column.each or column.statistic:
            continue
        yield Compared("totals", 1)
        largest = max((v.low for row in table.rows if (v := row.cells[index])), default=0.0)
        rest = value.value - added.value
        part = f"{100 * abs(rest) / value.value:.0f} % of {value.text} in {column.header}"
        if value.high < largest and len(table.rows) > 1:
            text = f"{total.name} is {value.text} in {column.header}, less than one of its rows"
            yield TableFlaw("total below a row", (total.name,), text)
        elif value.value - value.step > (added.high or 0.0) * (1 + FLOATS):
            lost.append(part)
        elif value.value + value.step < (added.low or 0.0) * (1 - FLOATS):
            doubled.append(part)
        else:
            exact += (added.high or 0.0) / (added.low or 1.0) < 1.1
    if lost:
        text = f"{' and '.join(lost)} of {total.name} are in no row: start-up and idling need rows too"
        yield TableFlaw("time in no row", (total.name,), text, doubt=not exact)
    if doubled:
        text = f"{' and '.join(doubled)} of {total.name} are in its rows and not in it"
        yield TableFlaw("time that is not in the total", (total.name,), text, doubt=not exact)


def _unlike_its_name(table: PublishedTable) -> Iterator[TableFlaw]:
    *above, last = table.rows
    if len(above) > 1 and is_operation(last.name) and not any(is_operation(row.name) for row in above):
        text = (
            f"{last.name}, the last row, is neither the sum nor the mean of the others: is it an operation?"
        )
        yield TableFlaw("summary or operation", (last.name,), text, doubt=True)


def _total_columns(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    times = [i for i in table.some(ColumnKind.TIME) if table.columns[i].statistic in ("", "mean")]
    costs = [i for i in table.some(ColumnKind.COST) if not table.columns[i].each]
    for index in (*times, *costs):
        alike = times if index in times else costs
        parts = [i for i in alike if i != index and not table.columns[i].statistic]
        own = table.columns[index].subject
        whole = bool(words_of(table.columns[index].header) & _WHOLE) or not own
        if len(parts) < 2 or not whole or not all(table.columns[i].subject - own for i in parts):
            continue
        relation = Relation(
            "the sum of its parts", tuple(sums(row.cells[i] for i in parts) for row in table.rows)
        )
        values = [row.cells[index] for row in table.rows]
        if result := best(values, [relation]):
            yield Compared("sums of columns", result.judged)
            for row, value, _ in result.wrong(values):
                name, header = table.rows[row].name, table.columns[index].header
                text = f"{name} has {value.text} in {header}, but its parts add up to another value"
                yield TableFlaw("total that its parts don't give", (name,), text)


def _averages(table: PublishedTable, row: TableRow) -> Iterator[TableFlaw | Compared]:
    """Report averages outside the range of their rows.

    If a row lacks a number, such as benchstat's `~`, the average can be of more than is printed.
    """
    for index in table.of(*MEASURES, ColumnKind.RATIO):
        value = row.cells[index]
        rows = [v for each in table.rows if (v := each.cells[index])]
        whole = len(rows) == len(table.rows) > 1
        if value is None or not whole or table.columns[index].change or "subtotal" in words_of(row.name):
            continue
        yield Compared("averages", 1)
        low, high = min(v.value - v.step for v in rows), max(v.value + v.step for v in rows)
        if value.value + value.step < low * (1 - SLACK) or value.value - value.step > high * (1 + SLACK):
            header = table.columns[index].header
            text = f"{row.name} is {value.text} in {header}, beyond every row that it sums up"
            yield TableFlaw("average beyond its rows", (row.name,), text, doubt=is_operation(row.name))
    yield from _other_average(table, row)


def _other_average(table: PublishedTable, row: TableRow) -> Iterator[TableFlaw]:
    off, exact = [], 0
    for index in table.measures:
        value, rows = row.cells[index], [v for each in table.rows if (v := cell(each, index))]
        if value is None or not value.above_zero or len(rows) < 3:
            continue
        near = [abs(value.value - mean) <= value.step + SLACK * mean for mean in means(rows)]
        exact += any(near)
        if not any(near):
            off.append((index, value))
    for index, value in off if exact > 2 * len(off) else ():
        text = f"{row.name} is {value.text} in {table.columns[index].header}, which is not the average of its rows"
        yield TableFlaw("average that its rows don't give", (row.name,), text)


def _by_sum(rows: Sequence[TableRow], base: int, side: int) -> Estimate | None:
    over, under = (sums(row.cells[index] for row in rows) for index in (base, side))
    return divided(over, under) if over and under and over.value and under.value else None


def _geomean(rows: Sequence[TableRow], base: int, side: int) -> Estimate | None:
    pairs = [(cell(row, base), cell(row, side)) for row in rows]
    present = [ratio(over, under) for over, under in pairs if over and under]
    if not present or len(present) != len(pairs) or not all(0 < each.value < math.inf for each in present):
        return None  # a float can't hold the ratio of 1e300 and 1e-300
    bounds = [(e.value, e.low or 0.0, math.inf if e.high is None else e.high) for e in present]
    logs = ((math.log(value) if value else -math.inf for value in part) for part in zip(*bounds, strict=True))
    return Estimate(*(math.exp(math.fsum(part) / len(present)) for part in logs))
