"""Tables of a text, and the meanings of columns and rows."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from tasks.errors import GridbenchError
from tasks.published.columns import heading, of_family, with_unit
from tasks.published.forms import TextGrid, find_grids
from tasks.published.numbers import MISSING, NumberText, printed, readings
from tasks.published.shapes import AWS_NAME, GCP_NAME
from tasks.published.sizes import read_sizes
from tasks.published.summaries import parted
from tasks.published.table import MEASURES, ColumnKind, Printed, PublishedColumn, PublishedTable, TableRow
from tasks.published.units import unit_of

MOST_TABLES = 200
MOST_TITLE = 160  # characters of a line above a table
MOST_ABOUT = 200_000  # characters around tables that are looked at
_IN_LINES = (*MEASURES, ColumnKind.PRICE, ColumnKind.COST)
_SCALED = (*_IN_LINES, ColumnKind.SIZE, ColumnKind.SHARE)
NOT_JUDGED = (ColumnKind.DEVICES, ColumnKind.SIZE, ColumnKind.OTHER)
_HANDS = re.compile(
    r"^(\d+)\s*[x×]?\s*(?:[a-z]\w*\s)?(gpu|node|device|thread|core|process|worker|cpu)s?\b", re.IGNORECASE
)
_UNIT_ABOVE = re.compile(r"(?:\bin|:|\()\s*([a-zµμ]+(?:/[a-z]+)*)\)?[.:*]*$")
DITTO = {"", ".", '"', "''", "〃"}
_METRIC = re.compile(r"metric|measure|statistic|quantity|parameter|\s*$")
ReadColumn = tuple[PublishedColumn, tuple[Printed | None, ...]]


def read_tables(text: str, where: str) -> list[PublishedTable]:
    """Read the tables of a text from the file `where`.

    Raises:
        GridbenchError: no table has anything to judge, or one has too many rows or columns.
    """
    grids = find_grids(text)
    if not grids:
        raise GridbenchError(
            f"{where} has no table: it must be CSV, Markdown, HTML, RST, text in columns, or a report of "
            "`name: value` lines, with a header"
        )
    about = text[:MOST_ABOUT].lower()
    tables = [_table(each, about) for each in grids[:MOST_TABLES]]
    if all(table.unjudged for table in tables):
        raise GridbenchError(
            f"{where} has {tables[0].unjudged}; write the unit into the header, such as 'GPU Time (s)' or 'images/s'"
        )
    return tables


def hands(header: str) -> float | None:
    """Return 4 for `4 GPUs`."""
    match = _HANDS.match(header.strip())
    return float(match[1]) if match and 0 < int(match[1]) < 10**6 else None


def _table(made: TextGrid, about: str) -> PublishedTable:
    made = _filled(_upright(made))
    match = re.search(r"\(times? in (\w+)\)", made.header[0].lower())
    unit_of_all = match[1] if match else ""
    headings = of_family([heading(name) for name in made.header])
    read = [_column(column, made.column(i), unit_of_all) for i, column in enumerate(headings)]
    read, assumed = _with_unit_above(made, read) if _has_no_measure(read) else (read, "")
    columns, values = zip(*read, strict=True)
    rows = _rows(made, columns, values)
    measured, sums = parted(rows, columns)
    skipped = [f"column {c.header[:60]!r} is not judged" for c, v in zip(columns, values, strict=True)
               if c.kind is ColumnKind.OTHER and any(v) and c.header]  # fmt: skip
    instances = (
        name.search(cell.lower())
        for row in (made.header, *made.rows)
        for cell in row
        for name in (AWS_NAME, GCP_NAME)
    )
    named = all(column.kind in NOT_JUDGED for column in columns) and not any(instances)
    return PublishedTable(
        columns,
        tuple(measured or rows),
        tuple(sums) if measured else (),
        about,
        tuple(skipped),
        (made.header, *made.rows),
        assumed,
        f"no column of times, rates, speedups or prices among {listed_names(made.header)}" if named else "",
    )


def listed_names(header: Sequence[str]) -> str:
    """Quote the first names."""
    names = ", ".join(repr(name[:40]) for name in header[:8])
    return f"{names} …" if len(header) > 8 else names


def _has_no_measure(read: Sequence[ReadColumn]) -> bool:
    return all(column.kind in NOT_JUDGED for column, _ in read)


def _with_unit_above(made: TextGrid, read: list[ReadColumn]) -> tuple[list[ReadColumn], str]:
    """Give columns without a meaning the unit above, or take the only one of several devices as a rate."""
    numbers = [
        i for i, (c, values) in enumerate(read) if c.kind is ColumnKind.OTHER and c.header and any(values)
    ]
    named = [
        text for line in made.above.lower().splitlines() for text in _UNIT_ABOVE.findall(line[:MOST_TITLE])
    ]
    units = [text for text in named if (unit := unit_of(text)) and unit.kind in MEASURES]
    if units and numbers:
        for index in numbers:
            column = with_unit(replace(read[index][0], kind=ColumnKind.OTHER), units[-1], sure=False)
            read[index] = _column(column or read[index][0], made.column(index), "")
        return read, f"the unit {units[-1]!r} is that of the line above the table"
    counts = [values for column, values in read if column.kind is ColumnKind.DEVICES]
    doubled = len(counts) == 1 and all(a and b and b.value == 2 * a.value for a, b in pairwise(counts[0]))
    rising = [i for i in numbers if all(a and b and a.value < b.value for a, b in pairwise(read[i][1]))]
    if doubled and rising == numbers and len(made.rows) > 2:
        for index in rising:
            read[index] = replace(read[index][0], kind=ColumnKind.RATE), read[index][1]
        headers = listed_names([read[i][0].header for i in rising])
        return read, f"what rises with the devices is taken as a rate: {headers}"
    return read, ""


def _upright(made: TextGrid) -> TextGrid:
    """Transpose a table whose first column has the measures, such as `Latency (ms)` and `images/s`.

    Their units can be in another column: `metric

    value

    unit`.
    """
    names = [name.lower() for name in made.header]
    unit = next((i for i, name in enumerate(names) if i and name in ("unit", "units")), 0)
    if unit and _METRIC.match(names[0]):
        kept = [i for i in range(1, len(names)) if i != unit]
        rows = ((f"{row[0]} ({row[unit]})", *(row[i] for i in kept)) for row in made.rows)
        made = TextGrid(tuple(made.header[i] for i in (0, *kept)), tuple(rows), made.above)
    first = [heading(cell).kind for cell in made.column(0)]
    across = [heading(name).kind for name in made.header[1:]]
    if 2 * sum(kind in _IN_LINES for kind in first) <= len(first) or any(kind in MEASURES for kind in across):
        return made
    lines = [[made.header[i], *made.column(i)] for i in range(len(made.header))]
    return TextGrid(tuple(lines[0]), tuple(map(tuple, lines[1:])), made.above)


def _filled(made: TextGrid) -> TextGrid:
    """Repeat a name in empty cells, dots and ditto marks below it."""
    names, name = [], ""
    for row in made.rows:
        name = name if row[0] in DITTO else row[0]
        names.append(name)
    return replace(made, rows=tuple((name, *row[1:]) for name, row in zip(names, made.rows, strict=True)))


def _column(column: PublishedColumn, cells: Sequence[str], unit_of_all: str) -> ReadColumn:
    """Read numbers, and the meaning from units and sizes.

    `unit_of_all`: such as `us` of `Name (time in us)`.
    """
    values = readings(cells, lasting=column.kind in (ColumnKind.TIME, ColumnKind.OTHER))
    filled = sum(cell.lower() not in MISSING for cell in cells)
    if not any(values) or 2 * sum(map(bool, values)) < filled:
        return replace(column, kind=ColumnKind.OTHER), (None,) * len(cells)
    units = Counter(value.unit for value in values if value and value.unit)
    unit = units.most_common(1)[0][0] if units else unit_of_all if column.statistic else ""
    column = with_unit(column, unit) or column
    if column.kind in (ColumnKind.RATIO, ColumnKind.EFFICIENCY, ColumnKind.SHARE) and unit == "%":
        column = replace(column, percent=True)
    if column.kind is ColumnKind.SHARE and not column.percent:
        column = replace(column, scale=100.0 if median(v.number for v in values if v) <= 1 else 1.0)
    factors = [_factor(column, value) for value in values]
    fitting = [value if factor else None for value, factor in zip(values, factors, strict=True)]
    return column, printed(fitting, [factor or 1.0 for factor in factors])


def _factor(column: PublishedColumn, value: NumberText | None) -> float | None:
    if value is None or column.kind not in _SCALED:
        return 1.0 if value else None
    own = unit_of(value.unit) if value.unit else None
    if own and own.kind is column.kind is not ColumnKind.SIZE:
        return own.scale
    fits = column.kind not in MEASURES or not value.unit or value.unit == column.unit
    return column.scale if fits else None


def _rows(
    made: TextGrid, columns: Sequence[PublishedColumn], values: Sequence[tuple[Printed | None, ...]]
) -> list[TableRow]:
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
