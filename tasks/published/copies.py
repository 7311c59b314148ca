"""Equal figures with too many digits for a coincidence."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

from tasks.published.numbers import digits_of
from tasks.published.rounded import cell
from tasks.published.sizes import LENGTHS, more_work
from tasks.published.table import ColumnKind, Printed, PublishedTable, TableFlaw, TableRow
from tasks.results.format import listed

ROW_DIGITS = 4  # equal digits of two rows with different work; by chance one in 10,000 has them
CHANCE = 0.01  # probability that any two numbers of a column agree by accident
ASKED = 0.1  # probability up to which it is a question
CLUSTERED = 30  # times denser than an even distribution, because a column has one magnitude
MODEL_DIGITS = 7  # equal digits of two rows of other names, such as two models
COLUMN_DIGITS = 6  # of the different numbers of two equal columns, without the first digit of each
MOST_NUMBERS = 100_000  # of pairs of columns
LEAST_ROWS = 3  # rows of a column that can be a copy; two of them are a doubt if they have as many digits
# Clocks agree in a run that is busy all the time, a call's own time and its total if it calls no other, and the gaps
# of equally long answers, which have two names.
CLOCKS = {"wall", "real", "cpu", "user", "process", "clock", "self", "total", "tpot", "itl"}


def copies(table: PublishedTable) -> list[list[TableRow]]:
    """Group rows of different work that agree in every digit.

    Rows of equal sizes can agree.
    """
    return [rows for rows in _alike(table) if len({row.kind for row in rows}) == 1
            and len({r.sizes for r in rows}) == len(rows)]  # fmt: skip


def _alike(table: PublishedTable, least: int = ROW_DIGITS) -> list[list[TableRow]]:
    measures = table.measures
    alike: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
    for row in table.rows:
        values = [value for i in measures if (value := row.cells[i])]
        if len(values) == len(measures) > 1 and _digits(table, row) >= least:
            alike[tuple(value.text for value in values)].append(row)
    return [rows for rows in alike.values() if len(rows) > 1]


def copied(table: PublishedTable) -> Iterator[TableFlaw]:
    """Report rows, numbers and columns that copy others.

    With one subject this is a doubt: waiting for launches or memory takes the same time for more work.
    """
    alone = len({table.columns[i].subject for i in table.measures}) == 1
    models = [
        rows for rows in _alike(table, MODEL_DIGITS) if len({row.kind for row in rows}) == len(rows) == 2
    ]
    for rows in (*copies(table), *models):
        names = [row.name for row in rows]
        figures = ", ".join(value.text for i in table.measures if (value := cell(rows[0], i)))
        which = "one" if len(rows) == 2 else "all but one"
        text = f"{listed(names, None)} have the same figures in every column ({figures}): {which} is a copy"
        doubt = alone or rows in models or _only_lengths(rows)
        yield TableFlaw("copied row", tuple(names), text, doubt)
    named = {row.name for rows in copies(table) for row in rows}
    for index in table.of(ColumnKind.TIME):  # a rate can be the same for more work
        if table.columns[index].fixed:
            continue
        yield from _copied_cells(table, index, named)
    yield from _copied_columns(table)


def _only_lengths(rows: Sequence[TableRow]) -> bool:
    """Return whether only lengths of answers differ, which do not affect the first token."""
    varying = {name for row in rows for name, size in row.sizes if size != dict(rows[0].sizes).get(name)}
    return bool(varying) and varying <= LENGTHS


def _copied_cells(table: PublishedTable, index: int, named: set[str]) -> Iterator[TableFlaw]:
    alike: dict[str, list[TableRow]] = defaultdict(list)
    values = [value for row in table.rows if (value := cell(row, index))]
    pairs, unit = len(values) * (len(values) - 1) / 2, _least_step(values)
    for row in table.rows:
        value = cell(row, index)
        if value and row.name not in named and pairs * CLUSTERED * unit < ASKED * value.value:
            alike[value.text].append(row)
    for text, rows in alike.items():
        if len(rows) == 2 and (more_work(*rows) or more_work(*rows[::-1])):
            names, value = [row.name for row in rows], rows[0].cells[index]
            sentence = f"{listed(names)} have {text} in {table.columns[index].header} for different work"
            sentence += ": one is a copy"
            doubt = bool(value) and pairs * CLUSTERED * unit >= CHANCE * (value.value if value else 0.0)
            yield TableFlaw("copied number", tuple(names), sentence, doubt)


def _copied_columns(table: PublishedTable) -> Iterator[TableFlaw]:
    for first, second in islice(combinations(table.measures, 2), MOST_NUMBERS // len(table.rows)):
        one, other = table.columns[first], table.columns[second]
        alike = (one.kind, one.statistic, one.scale) == (other.kind, other.statistic, other.scale)
        if not alike or one.subject == other.subject or one.subject ^ other.subject <= CLOCKS:
            continue
        equal = _equal(table, first, second)
        distinct = {value.text: digits_of(value) - 1 for value in equal}
        if len(distinct) >= LEAST_ROWS - 1 and sum(distinct.values()) >= COLUMN_DIGITS:
            text = f"{one.header} and {other.header} have the same figures in every row: one is a copy"
            yield TableFlaw("copied column", (), text, doubt=len(distinct) < LEAST_ROWS)


def _equal(table: PublishedTable, first: int, second: int) -> list[Printed]:
    equal = []
    for row in table.rows:
        left, right = cell(row, first), cell(row, second)
        if left and right and left.text != right.text:
            return []
        if left and right:
            equal.append(left)
    return equal


def _digits(table: PublishedTable, row: TableRow) -> int:
    """Count the longest column of each subject: percentiles depend on each other."""
    most: dict[frozenset[str], int] = defaultdict(int)
    for index in table.measures:
        if value := row.cells[index]:
            most[table.columns[index].subject] = max(most[table.columns[index].subject], digits_of(value))
    return sum(most.values())


def _least_step(values: Sequence[Printed]) -> float:
    """Return the greatest common step: rates can come in eights."""
    step = min((value.step for value in values), default=1.0)
    whole = [round(value.value / step) for value in values if value.value / step < 2**53]
    return step * math.gcd(*whole) if whole else step
