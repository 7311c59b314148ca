"""Reader of published tables: finds them in a text, and the meanings of their columns and rows."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tasks.errors import GridbenchError
from tasks.published.columns import heading, rate_of, seconds_of, with_unit
from tasks.published.forms import TextGrid, find_grids
from tasks.published.numbers import MISSING, NumberText, printed, readings
from tasks.published.sizes import read_sizes
from tasks.published.summaries import parted
from tasks.published.table import MEASURES, ColumnKind, Printed, PublishedColumn, PublishedTable, TableRow

MOST_ROWS = 1000
MOST_TABLES = 200
MOST_ABOUT = 200_000  # characters around tables that are looked at
NOT_JUDGED = (ColumnKind.DEVICES, ColumnKind.SIZE, ColumnKind.OTHER)
_HANDS = re.compile(
    r"^(\d+)\s*[x×]?\s*(?:[a-z]\w*\s)?(gpu|node|device|thread|core|process|worker|cpu)s?\b", re.IGNORECASE
)
_INSTANCE = re.compile(
    r"\b[a-z][0-9a-z-]{1,7}\.(?:\d*x?large|medium|metal)\b|\b(?:n[12]|a[23]|g2)-\w+-\d+g?\b"
)


def read_tables(text: str, where: str) -> list[PublishedTable]:
    """Read the tables of a text that have anything to judge; `where` names the file in sentences.

    Raises:
        GridbenchError: there is no such table, or one has too many rows.
    """
    grids = find_grids(text)
    if not grids:
        raise GridbenchError(
            f"{where} has no table: it must be CSV, Markdown, HTML, RST, or text in columns, with a header"
        )
    about = text[:MOST_ABOUT].lower()
    tables = [table for each in grids[:MOST_TABLES] if (table := _table(each, about))]
    if not tables:
        names = ", ".join(repr(name[:40]) for name in grids[0].header[:8])
        raise GridbenchError(
            f"{where} has no column of times, rates, speedups or prices among {names}; write the unit into "
            "the header, such as 'GPU Time (s)' or 'images/s'"
        )
    longest = max(len(table.rows) for table in tables)
    if longest > MOST_ROWS:
        raise GridbenchError(
            f"{where} has {longest} rows, but a published table can have at most {MOST_ROWS}"
        )
    return tables


def hands(header: str) -> float | None:
    """Return the number of devices that a header names, as in `4 GPUs`; None if it names none."""
    match = _HANDS.match(header.strip())
    return float(match[1]) if match and 0 < int(match[1]) < 10**6 else None


def _table(made: TextGrid, about: str) -> PublishedTable | None:
    """Read a table; None if nothing in it can be judged."""
    made = _upright(made)
    match = re.search(r"\(times? in (\w+)\)", made.header[0].lower())
    unit_of_all = match[1] if match else ""
    read = (_column(name, made.column(i), unit_of_all) for i, name in enumerate(made.header))
    columns, values = zip(*read, strict=True)
    instances = (_INSTANCE.search(cell.lower()) for row in (made.header, *made.rows) for cell in row)
    if all(column.kind in NOT_JUDGED for column in columns) and not any(instances):
        return None
    rows = _rows(made, columns, values)
    measured, sums = parted(rows, columns)
    skipped = [f"column {c.header[:60]!r} is not judged" for c, v in zip(columns, values, strict=True)
               if c.kind is ColumnKind.OTHER and any(v) and c.header]  # fmt: skip
    return PublishedTable(
        columns,
        tuple(measured or rows),
        tuple(sums) if measured else (),
        about,
        tuple(skipped),
        (made.header, *made.rows),
    )


def _upright(made: TextGrid) -> TextGrid:
    """Transpose a table whose first column has the measures, such as a line `Latency (ms)` and a line `images/s`."""
    first = [heading(cell).kind for cell in made.column(0)]
    across = [heading(name).kind for name in made.header[1:]]
    if 2 * sum(kind in MEASURES for kind in first) <= len(first) or any(kind in MEASURES for kind in across):
        return made
    lines = [[made.header[i], *made.column(i)] for i in range(len(made.header))]
    return TextGrid(tuple(lines[0]), tuple(map(tuple, lines[1:])))


def _column(
    header: str, cells: Sequence[str], unit_of_all: str
) -> tuple[PublishedColumn, tuple[Printed | None, ...]]:
    """Read the meaning and the numbers of a column. A column of text has no numbers.

    `unit_of_all` is the unit of all statistics, such as `us` of a first header `Name (time in us)`.
    """
    column = heading(header)
    values = readings(cells, lasting=column.kind in (ColumnKind.TIME, ColumnKind.OTHER))
    filled = sum(cell.lower() not in MISSING for cell in cells)
    if not any(values) or 2 * sum(map(bool, values)) < filled:
        return replace(column, kind=ColumnKind.OTHER), (None,) * len(cells)
    units = Counter(value.unit for value in values if value and value.unit)
    unit = units.most_common(1)[0][0] if units else unit_of_all if column.statistic else ""
    column = with_unit(column, unit) or column
    if column.kind in (ColumnKind.RATIO, ColumnKind.EFFICIENCY) and unit == "%":
        column = replace(column, percent=True)
    factors = [_factor(column, value) for value in values]
    known = [value if factor else None for value, factor in zip(values, factors, strict=True)]
    return column, printed(known, [factor or 1.0 for factor in factors])


def _factor(column: PublishedColumn, value: NumberText | None) -> float | None:
    """Return the factor of a cell's number by its unit, or None if the unit does not fit the column."""
    if value is None:
        return None
    unit = value.unit
    if column.kind is ColumnKind.TIME:
        spent = seconds_of(unit)
        return column.scale if not unit else spent[0] if spent else None
    if column.kind is ColumnKind.RATE:
        rate = rate_of(unit)
        return column.scale if not unit or unit == column.unit else rate[0] if rate else None
    if column.kind is ColumnKind.SIZE:
        return column.scale
    return 1.0


def _rows(
    made: TextGrid, columns: Sequence[PublishedColumn], values: Sequence[tuple[Printed | None, ...]]
) -> list[TableRow]:
    """Make a row of each line, with the sizes in its text and in its columns of sizes."""
    texts = [i for i, column in enumerate(values) if not any(column)]
    sized = [i for i, column in enumerate(columns) if column.kind is ColumnKind.SIZE]
    others = [i for i, c in enumerate(columns) if c.kind in (ColumnKind.DEVICES, ColumnKind.OTHER)]
    names = _names(made, list(dict.fromkeys([*texts, *sized, *others])), texts)
    rows = []
    for number, name in enumerate(names):
        text = " ".join(made.rows[number][i] for i in texts)
        kind, in_name = read_sizes(text)
        sizes = {columns[i].unit: v.value for i in sized if (v := values[i][number]) and v.above_zero}
        merged = tuple((dict(in_name) | sizes).items())
        rows.append(TableRow(name, tuple(v[number] for v in values), kind, merged, text.lower()))
    return rows


def _names(made: TextGrid, labels: Sequence[int], texts: Sequence[int]) -> list[str]:
    """Name each row by its first text, with further labels until the names differ."""
    names = [""] * len(made.rows)
    for index in labels:
        if all(names) and len({*names}) == len(names):
            break
        cells = made.column(index)
        if len({*cells}) > 1 or not any(names):
            if index not in texts:
                cells = [f"{made.header[index]}={cell}" if cell else "" for cell in cells]
            names = [", ".join(filter(None, pair)) for pair in zip(names, cells, strict=True)]
    doubled = {name for name, times in Counter(names).items() if times > 1}
    return [
        f"{name} (row {number})".strip()[:120] if name in doubled or not name else name[:120]
        for number, name in enumerate(names, start=1)
    ]
