"""Speedups, changes and efficiencies must follow from other numbers."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations, repeat

from tasks.published.columns import words_of
from tasks.published.relations import CLEAR, OFF, Outcome, Relation, best, distance, mapped, outcome
from tasks.published.rounded import cell, interval, quotient, quotients
from tasks.published.summaries import is_total
from tasks.published.table import ColumnKind, Compared, Printed, PublishedColumn, PublishedTable, TableFlaw
from tasks.results.format import listed, significant
from tasks.results.values import Estimate

BEFORE = "the row before"
EXTREMES = {
    "max",
    "maximum",
    "best",
    "top",
    "min",
    "minimum",
}  # of several relations, a different one in each row
MOST_NUMBERS = 60_000  # computed to be compared with ratios
MOST_COLUMNS = 14  # of times and rates whose ratios are taken
MOST_ROWS = 1000  # of a table whose ratios can be to a row
SPEEDUPS = {"speedup", "speedups", "acceleration", "faster", "up"}  # not a ratio of sizes
RULE = "speedup that its times don't give"
Forms = tuple[Callable[[float], float], ...]
_AS_CHANGE: Forms = (lambda x: x, lambda x: x - 1, lambda x: 1 - x)
_IN_PERCENT: Forms = (lambda x: 100 * x, lambda x: 100 * (x - 1), lambda x: 100 * (1 - x), lambda x: x)


def misquoted(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    """Report ratios that the printed numbers can't give, if they give most."""
    for index in table.some(ColumnKind.RATIO, ColumnKind.EFFICIENCY):
        values = [row.cells[index] for row in table.rows]
        candidates = relations(table, index)
        if result := best(values, candidates):
            yield Compared("ratios", result.judged)
            yield from _accused(table, index, values, result, candidates)
            flaws = [*_of_totals(table, index, result.relation), *_turned(table, index, result.relation)]
            yield from flaws[:1]
        elif flaw := _by_devices(table, index, values) or _alone(table, index, values):
            yield flaw


def relations(table: PublishedTable, index: int) -> list[Relation]:
    """List all that a column of ratios can be."""
    column = table.columns[index]
    raw = [*_between_columns(table, column), *_between_rows(table, index)]
    if column.kind is ColumnKind.EFFICIENCY or "scaling" in column.header.lower():
        raw += list(_by_device(table, index))
    if not column.percent and not column.change:
        return raw
    forms = _IN_PERCENT if column.percent else _AS_CHANGE
    return [
        replace(relation, bounds=tuple(bounds and mapped(bounds, form) for bounds in relation.bounds))
        for relation in raw
        for form in forms
    ]


def _between_columns(table: PublishedTable, column: PublishedColumn) -> Iterator[Relation]:
    measures = _measures(table)
    for over, under in permutations(measures, 2):
        first, second = table.columns[over], table.columns[under]
        if first.kind is not second.kind or first.statistic != second.statistic:
            continue
        bounds = quotients(table, over, under)
        names_both = first.subject != second.subject and column.subject >= (first.subject | second.subject)
        named = len(measures) == 2 or names_both
        yield Relation(f"{first.header} over {second.header}", bounds, named=named, columns=(over, under))


def _measures(table: PublishedTable) -> list[int]:
    ratios = len(table.some(ColumnKind.RATIO, ColumnKind.EFFICIENCY))
    pairs = MOST_NUMBERS // (len(table.rows) * max(ratios, 1))
    return table.measures[: max(2, min(math.isqrt(pairs), MOST_COLUMNS))]


def _between_rows(
    table: PublishedTable, index: int, counts: Sequence[float | None] = ()
) -> Iterator[Relation]:
    """Yield rows' ratios to a reference row, by measure; with counts, for each device."""
    for measure in _measures(table):
        values = [cell(row, measure) for row in table.rows]
        name = table.columns[measure].header
        for words, references in _references(table, index, values):
            trivial = frozenset(row for row, other in enumerate(references) if other == row)
            alone = len(table.measures) == 1 and (bool(counts) or words != BEFORE)
            others = [None if row is None else values[row] for row in references]
            for over, under in ((others, values), (values, others)):
                bounds, text = tuple(map(quotient, over, under)), f"{name} against {words}"
                if counts:
                    bases = [None if row is None else counts[row] for row in references]
                    bounds, text = tuple(map(_per_device, bounds, bases, counts)), f"{text} by device"
                yield Relation(text, bounds, trivial, alone)


def _references(
    table: PublishedTable, index: int, values: Sequence[Printed | None]
) -> Iterator[tuple[str, list[int | None]]]:
    count = len(table.rows)
    present = [(value.value, row) for row, value in enumerate(values) if value]
    if len(present) < 2 or count > MOST_ROWS:
        return
    for row in sorted({present[0][1], present[-1][1], min(present)[1], max(present)[1]}):
        yield table.rows[row].name, [row] * count
    column = table.columns[index]
    one = 0.0 if column.change else 100.0 if column.percent else 1.0
    ratios = [line.cells[index] for line in table.rows]
    ones = [row for row, value in enumerate(ratios) if value and abs(value.value - one) < 1e-9]
    if len(ones) > 1:
        yield "the 1 above", [max((r for r in ones if r <= row), default=None) for row in range(count)]
        yield "the 1 below", [min((r for r in ones if r >= row), default=None) for row in range(count)]
    yield BEFORE, [row - 1 if row else None for row in range(count)]
    first: dict[str, int] = {}
    yield "its group's first", [first.setdefault(line.text, row) for row, line in enumerate(table.rows)]


def _by_device(table: PublishedTable, index: int) -> Iterator[Relation]:
    for place in table.of(ColumnKind.DEVICES):
        counts = [value.value if (value := cell(row, place)) else None for row in table.rows]
        for i in table.of(ColumnKind.RATIO):
            if i != index:
                own = [interval(value) if (value := cell(row, i)) else None for row in table.rows]
                shares = tuple(map(_per_device, own, repeat(1.0), counts))
                yield Relation(f"{table.columns[i].header} by device", shares)
        yield from _between_rows(table, index, counts)


def _per_device(gained: Estimate | None, base: float | None, count: float | None) -> Estimate | None:
    return mapped(gained, lambda x: x * base / count) if gained and base and count else None


def _accused(
    table: PublishedTable,
    index: int,
    values: Sequence[Printed | None],
    result: Outcome,
    candidates: Sequence[Relation],
) -> Iterator[TableFlaw]:
    extreme = bool(words_of(table.columns[index].header) & EXTREMES)
    for row, value, bounds in result.wrong(values):
        others = (b for each in candidates if (b := each.bounds[row]))
        if (extreme or distance(value, bounds) <= OFF) and any(not distance(value, b) for b in others):
            continue  # another relation gives it, such as in a column of the best of several
        text = (
            f"{table.rows[row].name} has {value.text} in {table.columns[index].header}, but "
            f"{result.relation.words} gives {spread(bounds)} there, and the printed value in "
            f"{result.agreeing} other rows"
        )
        yield TableFlaw(RULE, (table.rows[row].name,), text)


def _of_totals(table: PublishedTable, index: int, relation: Relation) -> Iterator[TableFlaw]:
    """Report a total's speedup that is neither of total times nor between the rows'."""
    column = table.columns[index]
    if not relation.columns or column.percent or column.change:
        return
    over, under = relation.columns
    of_rows = [value.value for row in table.rows if (value := row.cells[index])]
    for total in (row for row in table.sums if is_total(row.name)):
        value, bounds = total.cells[index], quotient(cell(total, over), cell(total, under))
        if value and bounds and distance(value, bounds) > CLEAR:
            text = f"{total.name} has {value.text} in {column.header}, but {relation.words} gives {spread(bounds)}"
            turned = distance(value, mapped(bounds, lambda x: 1 / x if x else math.inf)) <= OFF
            if turned and max(of_rows) < 1:
                text = f"every {column.header} is {relation.words}, the wrong way round: the total's is {value.text}"
            elif min(of_rows) <= value.value <= max(of_rows):
                continue
            yield TableFlaw(RULE, (total.name,), text)


def _turned(table: PublishedTable, index: int, relation: Relation) -> Iterator[TableFlaw]:
    """Ask about speedups that are all time after over time before, below 1."""
    column, times = table.columns[index], table.of(ColumnKind.TIME)
    plain = words_of(column.header) & SPEEDUPS and not column.percent and not column.change
    slower = all(value.high < 1 for row in table.rows if (value := row.cells[index]))
    if plain and slower and len(times) == 2 and relation.columns == (times[1], times[0]):
        text = f"every {column.header} is {relation.words}, below 1: is it the other way round?"
        yield TableFlaw(RULE, (), text, doubt=True)


def _by_devices(table: PublishedTable, index: int, values: Sequence[Printed | None]) -> TableFlaw | None:
    """Report a "speedup" that is each device's: the efficiency."""
    header = table.columns[index].header
    result = best(values, list(_by_device(table, index))) if words_of(header) & SPEEDUPS else None
    if result is None or result.off or result.judged < len(table.rows):
        return None
    return TableFlaw(
        RULE, (), f"{header} is {result.relation.words} in every row: an efficiency, not a speedup"
    )


def _alone(table: PublishedTable, index: int, values: Sequence[Printed | None]) -> TableFlaw | None:
    """Report an unexplained speedup in a table of two measures."""
    column, measures = table.columns[index], table.measures
    kinds = {table.columns[i].kind for i in measures}
    if len(measures) != 2 or len(kinds) != 1 or column.kind is not ColumnKind.RATIO or column.change:
        return None
    first, second = (table.columns[i].subject for i in measures)
    if not words_of(column.header) & SPEEDUPS or column.subject - (first | second):
        return None
    ratios = [table.columns[i].subject for i in table.of(ColumnKind.RATIO)]
    sides = ((first - second, second - first), (second - first, first - second))
    if all(any(own & each and not other & each for each in ratios) for own, other in sides):
        return None  # a speedup of each measure, over something that stands elsewhere
    explained = {
        row
        for relation in relations(table, index)
        for row, (value, bounds) in enumerate(zip(values, relation.bounds, strict=True))
        if value and bounds and distance(value, bounds) <= CLEAR
    }
    between = next(_between_columns(table, column), None)
    if between is None:
        return None  # two statistics of one thing
    direct = outcome(values, between)
    off = [row for row in direct.off if row not in explained]
    if not off or (len(off) < direct.judged and direct.judged > 2 and not direct.agreeing):
        return None
    names = [table.rows[row].name for row in off[:3]]
    value, bounds = values[off[0]], between.bounds[off[0]]
    has = "has" if len(names) == 1 else "have"
    text = f"{listed(names)} {has} a {column.header} that no two of the numbers give"
    if value and bounds:
        text += f": {value.text} compared with {between.words} of {spread(bounds)}"
    return TableFlaw(RULE, tuple(names), text)


def spread(bounds: Estimate) -> str:
    """Return `33.0–101`, or `32.7 or more`."""
    low = significant(bounds.low or 0.0, 3)
    high = bounds.high if bounds.high is not None else float("inf")
    return f"{low}–{significant(high, 3)}" if high < float("inf") else f"{low} or more"
