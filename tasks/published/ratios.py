"""Speedups, relative times, changes and efficiencies: each must be that of the numbers beside it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

from tasks.published.meaning.columns import words_of
from tasks.published.relations import OFF, Outcome, Relation, best, distance, mapped, outcome
from tasks.published.table import (
    MEASURES,
    ColumnKind,
    Printed,
    PublishedColumn,
    PublishedTable,
    TableFlaw,
    cell,
    listed,
    ratio,
)
from tasks.results.format import significant
from tasks.results.values import Estimate

BEFORE = "the row before"
EXTREMES = {"max", "maximum", "best", "top", "min", "minimum"}  # of several, each row's own
MOST_MEASURES = 14  # columns of a table that are held against each other
CLEAR = 0.05  # beyond rounding, from which two columns alone contradict a speedup
SPEEDUPS = {"speedup", "speedups", "acceleration", "faster", "up"}  # no ratio of sizes
RULE = "speedup that its times don't give"
_FORMS: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("", lambda x: x),
    ("100 %", lambda x: 100 * x),
    ("- 1", lambda x: x - 1),
    ("100 % - 100 %", lambda x: 100 * (x - 1)),
    ("1 -", lambda x: 1 - x),
    ("100 % - 100 % of", lambda x: 100 * (1 - x)),
)


def misquoted(table: PublishedTable) -> Iterator[TableFlaw]:
    """Report ratios and efficiencies that the printed numbers can't produce, in tables whose others do."""
    for index in table.of(ColumnKind.RATIO, ColumnKind.EFFICIENCY):
        values = [row.cells[index] for row in table.rows]
        candidates = relations(table, index)
        if result := best(values, candidates):
            yield from _accused(table, index, values, result, candidates)
        elif flaw := _alone(table, index, values):
            yield flaw


def relations(table: PublishedTable, index: int) -> list[Relation]:
    """List everything that a column of ratios may be."""
    column = table.columns[index]
    raw = [*_between_columns(table, column), *_between_rows(table, index)]
    if column.kind is ColumnKind.EFFICIENCY or "scaling" in column.header.lower():
        raw += list(_per_device(table, index))
    return [
        Relation(
            relation.words,
            tuple(bounds and mapped(bounds, form) for bounds in relation.bounds),
            relation.trivial,
            relation.named,
        )
        for relation in raw
        for form in _forms(column)
    ]


def _forms(column: PublishedColumn) -> list[Callable[[float], float]]:
    """Return how a ratio may be written in a column: as it is, in percent, as a change."""
    kept = [1, 3, 5, 0] if column.percent else [0, 2, 4] if column.change else [0]
    return [_FORMS[i][1] for i in kept]


def _between_columns(table: PublishedTable, column: PublishedColumn) -> Iterator[Relation]:
    """Yield the ratios of two columns of one kind, such as CPU time over GPU time."""
    measures = table.of(*MEASURES)[:MOST_MEASURES]
    for over, under in permutations(measures, 2):
        first, second = table.columns[over], table.columns[under]
        if first.kind is not second.kind or first.statistic != second.statistic:
            continue
        bounds = tuple(_ratio(cell(row, over), cell(row, under)) for row in table.rows)
        named = len(measures) == 2 or _names_both(column, first, second)
        yield Relation(f"{first.header} over {second.header}", bounds, named=named)


def _names_both(column: PublishedColumn, first: PublishedColumn, second: PublishedColumn) -> bool:
    """Return True if a header has the words of two columns, which differ."""
    return first.subject != second.subject and column.subject >= (first.subject | second.subject)


def _between_rows(table: PublishedTable, index: int) -> Iterator[Relation]:
    """Yield the ratios of each row to a reference row, for every measure."""
    for measure in table.of(*MEASURES)[:MOST_MEASURES]:
        values = [cell(row, measure) for row in table.rows]
        name = table.columns[measure].header
        for words, references in _references(table, index, values):
            trivial = frozenset(row for row, other in enumerate(references) if other == row)
            alone = len(table.of(*MEASURES)) == 1 and words != BEFORE
            pairs = [
                (values[r] if r is not None else None, value)
                for r, value in zip(references, values, strict=True)
            ]
            yield Relation(f"{name} against {words}", tuple(_ratio(*pair) for pair in pairs), trivial, alone)
            yield Relation(f"{name} against {words}", tuple(_ratio(b, a) for a, b in pairs), trivial, alone)


def _references(
    table: PublishedTable, index: int, values: Sequence[Printed | None]
) -> Iterator[tuple[str, list[int | None]]]:
    """Yield which row each row may be compared with: the first, the last, the best, one of ratio 1."""
    count = len(table.rows)
    present = [(value.value, row) for row, value in enumerate(values) if value]
    if len(present) < 2:
        return
    fixed = dict.fromkeys((present[0][1], present[-1][1], min(present)[1], max(present)[1]))
    for row in sorted(fixed, key=lambda r: r):
        yield table.rows[row].name, [row] * count
    ones = [row for row, line in enumerate(table.rows) if _is_one(line.cells[index], table.columns[index])]
    if len(ones) > 1:
        yield "the 1 above", [max((one for one in ones if one <= row), default=None) for row in range(count)]
        yield "the 1 below", [min((one for one in ones if one >= row), default=None) for row in range(count)]
    yield BEFORE, [row - 1 if row else None for row in range(count)]
    yield "its group's first", _firsts([row.text for row in table.rows])


def _firsts(texts: Sequence[str]) -> list[int | None]:
    first: dict[str, int] = {}
    return [first.setdefault(text, row) for row, text in enumerate(texts)]


def _per_device(table: PublishedTable, index: int) -> Iterator[Relation]:
    """Yield the speedups of each row over a reference row, divided by what it has more of devices."""
    for hands in table.of(ColumnKind.DEVICES):
        devices = [cell(row, hands) for row in table.rows]
        ratios = [Relation(table.columns[i].header, tuple(_own(row.cells[i]) for row in table.rows))
                  for i in table.of(ColumnKind.RATIO) if i != index]  # fmt: skip
        for relation in ratios:
            yield Relation(f"{relation.words} by device", tuple(map(_divided, relation.bounds, devices)))
        for measure in table.of(*MEASURES)[:MOST_MEASURES]:
            values = [cell(row, measure) for row in table.rows]
            for words, references in _references(table, index, values):
                trivial = frozenset(row for row, other in enumerate(references) if other == row)
                for turned in (False, True):
                    bounds = [
                        _shared(values, devices, other, row, turned) for row, other in enumerate(references)
                    ]
                    yield Relation(
                        f"{table.columns[measure].header} against {words} by device",
                        tuple(bounds),
                        trivial,
                        named=len(table.of(*MEASURES)) == 1,
                    )


def _shared(
    values: Sequence[Printed | None],
    devices: Sequence[Printed | None],
    other: int | None,
    row: int,
    turned: bool,
) -> Estimate | None:
    mine, its = values[row], values[other] if other is not None else None
    hands, base = devices[row], devices[other] if other is not None else None
    gained = _ratio(mine, its) if turned else _ratio(its, mine)
    return mapped(gained, lambda x: x * base.value / hands.value) if gained and hands and base else None


def _divided(bounds: Estimate | None, devices: Printed | None) -> Estimate | None:
    return mapped(bounds, lambda x: x / devices.value) if bounds and devices else None


def _own(value: Printed | None) -> Estimate | None:
    return Estimate(value.value, value.low, value.high) if value and value.above_zero else None


def _ratio(over: Printed | None, under: Printed | None) -> Estimate | None:
    return ratio(over, under) if over and under else None


def _is_one(value: Printed | None, column: PublishedColumn) -> bool:
    whole = 0.0 if column.change else 100.0 if column.percent else 1.0
    return value is not None and abs(value.value - whole) < 1e-9


def _accused(
    table: PublishedTable,
    index: int,
    values: Sequence[Printed | None],
    result: Outcome,
    candidates: Sequence[Relation],
) -> Iterator[TableFlaw]:
    extreme = bool(words_of(table.columns[index].header) & EXTREMES)
    for row in result.off:
        value, bounds = values[row], result.relation.bounds[row]
        if value and bounds:
            if (extreme or distance(value, bounds) <= OFF) and _explained(value, row, candidates):
                continue
            text = (
                f"{table.rows[row].name} has {value.text} in {table.columns[index].header}, but "
                f"{result.relation.words} gives {spread(bounds)} there, and what stands in {result.agreeing} "
                "other rows"
            )
            yield TableFlaw(RULE, (table.rows[row].name,), text)


def _explained(value: Printed, row: int, candidates: Sequence[Relation]) -> bool:
    """Return True if another relation gives what stands in a row, as where it is the best of several."""
    return any(bounds and not distance(value, bounds) for each in candidates if (bounds := each.bounds[row]))


def _alone(table: PublishedTable, index: int, values: Sequence[Printed | None]) -> TableFlaw | None:
    """Report a speedup beside just two columns that nothing in the table explains, in any row."""
    column, measures = table.columns[index], table.of(*MEASURES)
    kinds = {table.columns[i].kind for i in measures}
    if len(measures) != 2 or len(kinds) != 1 or column.kind is not ColumnKind.RATIO or column.change:
        return None
    if not words_of(column.header) & SPEEDUPS:
        return None
    if column.subject - table.columns[measures[0]].subject - table.columns[measures[1]].subject:
        return None
    candidates = relations(table, index)
    explained = {
        row
        for relation in candidates
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
    relation = direct.relation
    names = [table.rows[row].name for row in off[:3]]
    row = off[0]
    value, bounds = values[row], relation.bounds[row]
    has = "has" if len(names) == 1 else "have"
    text = f"{listed(names)} {has} a {column.header} that no two of the numbers give"
    if value and bounds:
        text += f": {value.text} compared with {relation.words} of {spread(bounds)}"
    return TableFlaw(RULE, tuple(names), text)


def spread(bounds: Estimate) -> str:
    """Format the bounds that rounding leaves: `33.0–101`, or `32.7 or more`."""
    low = significant(bounds.low or 0.0, 3)
    high = bounds.high if bounds.high is not None else float("inf")
    return f"{low}–{significant(high, 3)}" if high < float("inf") else f"{low} or more"
