"""Reader of published tables, as CSV or as lines with | and +; an error names row and column."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.errors import GridbenchError
from tasks.published.columns import MISSING, ColumnKind, Heading, heading, numbers, owner, words_of
from tasks.published.sizes import read_sizes
from tasks.published.table import Printed, PublishedColumn, PublishedTable, TableRow

MOST_ROWS = 1000
MOST_CELL = 300  # characters
_BOXES = str.maketrans("│┃║─━═┆┄", "|||---|-") | dict.fromkeys(
    map(ord, "┌┐└┘├┤┬┴┼╒╕╘╛╞╡╤╧╪╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋┡┩╇"), "+"
)
_RULE = re.compile(r"[\s|+:=-]+")
_TOTALS = {"total", "totals", "sum", "overall"}
_BESIDE_TOTAL = {"grand", "job", "run", "wall", "time", "runtime", "suite", "benchmark", "elapsed", "s"}
_SUMMARIES = {"average", "avg", "mean", "geomean", "geometric", "median", "subtotal"}
_BASES = ({"baseline", "base", "reference", "before"}, {"cpu"})
_Values = tuple[Printed | None, ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """A table as text."""

    where: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, index: int) -> list[str]:
        """Return the cells below a header."""
        return [row[index] for row in self.rows]

    def row_name(self, row: int) -> str:
        """Describe a row: its number below the header and its first cell."""
        return f"{self.where}, row {row + 1} ({self.rows[row][0][:60]})"


def read_table(text: str, where: str) -> PublishedTable:
    """Read the first table with times in a text; `where` names the file in sentences.

    Columns are known by their headers: times have their unit in it (`CPU Time (s)`, `gpu_ms`), `Speedup` is
    a ratio of two of them, `images/s` a rate, and `n`, `pixels`, `batch`, `flops`, `bytes` … are sizes.

    Raises:
        GridbenchError: there is no such table, or a cell of it is no number; row and column are named.
    """
    tables = _boxed(text, where) or [_csv(text, where)]
    headings = [[heading(name) for name in cells.header] for cells in tables]
    timed = [i for i, row in enumerate(headings) if any(h.kind is ColumnKind.TIME for h in row)]
    if not timed and len(tables[0].header) < 2:
        raise GridbenchError(f"{where} holds no table: neither CSV nor lines that begin with |")
    if not timed:
        names = ", ".join(repr(name[:40]) for name in tables[0].header[:8])
        raise GridbenchError(
            f"{where} has no column of times among {names}; write the unit into the header, "
            "such as 'GPU Time (s)' or 'gpu_ms'"
        )
    first = tables[timed[0]]
    _check_shape(first)
    table = _table(first, headings[timed[0]])
    more = [f"the file has {len(timed) - 1} more tables with times: put each into a file of its own"] * (
        len(timed) > 1
    )
    return replace(table, skipped=(*table.skipped, *more))


def _boxed(text: str, where: str) -> list[Cells]:
    """Read the tables of lines that begin with | or +, as terminals and Markdown have them."""
    blocks: list[list[tuple[str, ...]]] = [[]]
    for line in text.translate(_BOXES).splitlines():
        if not line.strip().startswith(("|", "+")):
            blocks.append([])
        elif not _RULE.fullmatch(line):
            inner = line.strip().removeprefix("|").removesuffix("|")
            cells = re.split(r"(?<!\\)\|", inner)
            blocks[-1].append(tuple(_line(cell).strip("*`").replace("\\|", "|") for cell in cells))
    return [Cells(where, block[0], tuple(block[1:])) for block in blocks if len(block) > 1 < len(block[0])]


def _csv(text: str, where: str) -> Cells:
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise GridbenchError(f"{where} is neither CSV nor a table of lines with | ({error})") from None
    rows = [row for line in lines if any(row := tuple(map(_line, line)))]
    if len(rows) < 2:
        raise GridbenchError(f"{where} holds no table: it needs a header and at least one row")
    return Cells(where, rows[0], tuple(rows[1:]))


def _line(cell: str) -> str:
    """Join a cell into one line: a quoted cell of a CSV may hold line breaks, a sentence must not."""
    return " ".join(cell.split())


def _check_shape(cells: Cells) -> None:
    """Refuse what no table for people looks like."""
    header, rows = cells.header, cells.rows
    if len(rows) > MOST_ROWS:
        raise GridbenchError(f"{cells.where} has {len(rows)} rows, a published table at most {MOST_ROWS}")
    doubled = [name for name in header if name and header.count(name) > 1]
    if doubled:
        raise GridbenchError(f"{cells.where} has two columns named {doubled[0][:60]!r}; name each once")
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise GridbenchError(
                f"{cells.row_name(number)} has {len(row)} cells, the header has {len(header)}"
            )
        for name, cell in zip(header, row, strict=True):
            if len(cell) > MOST_CELL:
                where = f"{cells.row_name(number)}, column {name[:60]!r}"
                raise GridbenchError(f"{where} has {len(cell)} characters, at most {MOST_CELL} are read")


def _table(cells: Cells, headings: Sequence[Heading]) -> PublishedTable:
    """Assign the columns by their meaning and name the rows; list what is left over."""
    places = {kind: [i for i, each in enumerate(headings) if each.kind is kind] for kind in ColumnKind}
    others = places[ColumnKind.OTHER]
    texts = [i for i in others if not _numeric(cells.column(i))] or others[:1]
    read = {
        i: numbers(each, cells.column(i), cells.row_name)
        for i, each in enumerate(headings)
        if each.kind is not ColumnKind.OTHER
    }
    times = tuple(read[i][0] for i in places[ColumnKind.TIME])
    base = _base(times)
    among = [i for i in range(len(times)) if i != base]
    speedups = {i: owner(read[i][0], times, among) for i in places[ColumnKind.SPEEDUP]}
    rates = {i: owner(read[i][0], times, range(len(times))) for i in places[ColumnKind.RATE]}
    kept_speedups, kept_rates = (
        [i for i, times_index in owners.items() if times_index is not None] for owners in (speedups, rates)
    )
    sizes = {read[i][0]: read[i][1] for i in places[ColumnKind.SIZE]}
    shown = (places[ColumnKind.TIME], kept_speedups, kept_rates)
    rows = _rows(cells, texts, [[read[i][1] for i in group] for group in shown], sizes)
    left = [i for i in others if i not in texts] + [
        i for i, times_index in (*speedups.items(), *rates.items()) if times_index is None
    ]
    return _parted(
        PublishedTable(
            times=times,
            rows=tuple(rows),
            speedups=tuple(replace(read[i][0], times_index=speedups[i]) for i in kept_speedups),
            rates=tuple(replace(read[i][0], times_index=rates[i]) for i in kept_rates),
            base=base,
            skipped=tuple(f"column {cells.header[i]!r} is not judged" for i in sorted(left)),
        )
    )


def _rows(
    cells: Cells,
    texts: Sequence[int],
    shown: Sequence[Sequence[_Values]],
    sizes: dict[PublishedColumn, _Values],
) -> list[TableRow]:
    """Make a row of each line; `shown` are its times, speedups and rates."""
    names, rows = _names(cells, texts, sizes), []
    for number, name in enumerate(names):
        kind, in_name = read_sizes(" ".join(cells.rows[number][i] for i in texts))
        stated = {c.unit: p.value * c.scale for c, values in sizes.items() if (p := values[number])}
        times, speedups, rates = (tuple(values[number] for values in group) for group in shown)
        rows.append(TableRow(name, times, speedups, rates, kind, tuple((dict(in_name) | stated).items())))
    return rows


def _names(cells: Cells, texts: Sequence[int], sizes: dict[PublishedColumn, _Values]) -> list[str]:
    """Name each row by its first text, and as many other texts and sizes as make the names differ."""
    names = [""] * len(cells.rows)
    extra_columns = [[f"{c.header}={p.text}" if p else "" for p in values] for c, values in sizes.items()]
    for more in (*(cells.column(index) for index in texts), *extra_columns):
        if all(names) and len({*names}) == len(names):
            break
        names = [", ".join(filter(None, pair)) for pair in zip(names, more, strict=True)]
    doubled = {name for name, times in Counter(names).items() if times > 1}
    return [
        f"{name} (row {number})".strip() if name in doubled or not name else name
        for number, name in enumerate(names, start=1)
    ]


def _parted(table: PublishedTable) -> PublishedTable:
    """Separate the total from the rows, and drop other rows that are sums."""
    totals = [row for row in table.rows if _is_total(row.name)]
    others = [row for row in table.rows if words_of(row.name) & _SUMMARIES and row not in totals[-1:]]
    aside = [*totals[:-1], *(row for row in others if row not in totals)]
    rows = tuple(row for row in table.rows if row not in totals and row not in aside)
    notes = (f"row {row.name[:60]!r} sums up others and is not judged" for row in aside)
    total = totals[-1] if totals else None
    return replace(table, rows=rows, total=total, skipped=(*table.skipped, *notes))


def _is_total(name: str) -> bool:
    words = words_of(name)
    return bool(words & _TOTALS) and words <= _TOTALS | _BESIDE_TOTAL


def _base(times: Sequence[PublishedColumn]) -> int:
    """Return the only column that calls itself the baseline or the CPU's; else the first."""
    for names in _BASES:
        named = [i for i, column in enumerate(times) if words_of(column.header) & names]
        if len(named) == 1:
            return named[0]
    return 0


def _numeric(column: Sequence[str]) -> bool:
    """Return True if a column of unknown meaning holds numbers; text would be part of a row's name."""
    filled = [cell for cell in column if cell.lower() not in MISSING]
    return bool(filled) and all(re.fullmatch(r"[<>~≈$€]?\s?[+-]?[\d.,]+\s?\S{0,4}", cell) for cell in filled)
