"""Scaling over devices can't be far above linear."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tasks.published.read import hands
from tasks.published.rounded import cell
from tasks.published.table import ColumnKind, Compared, Printed, PublishedTable, TableFlaw, TableRow
from tasks.results.format import significant

IMPOSSIBLE = 1.2  # of linear: more than the larger caches of more devices have given
DOUBTFUL = 1.05
SHARDS = {"tp", "tensor_parallel"}
RULE = "more than its devices give"
_IN_TEXT = re.compile(
    r"\b(\d{1,5})\s*[x×-]?\s*(?:[a-z]\w*[- ])?(gpu|node|device|thread|core|process|worker|cpu)s?\b"
)
_OF_RATES = re.compile(r"/s\b|per sec|speed|throughput")
Point = tuple[float, Printed, str]


def superlinear(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    """Report superlinear scaling, as a doubt if caches can explain it."""
    first: dict[tuple[str, ...], TableFlaw] = {}
    for result in (*_by_rows(table), *_by_columns(table), *_stated(table)):
        if isinstance(result, Compared):
            yield result
        else:
            first.setdefault(result.rows, result)
    yield from first.values()


def _by_rows(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    # The ranks of a model's parts are some of the GPUs, and more of them leave more memory for requests.
    counted = [i for i in table.of(ColumnKind.DEVICES) if table.columns[i].unit not in SHARDS]
    kinds = (ColumnKind.SIZE, ColumnKind.OTHER, ColumnKind.PRICE, ColumnKind.DEVICES)
    labels = [i for i in table.of(*kinds) if i not in counted and not _grows(table, i)]
    rows = [
        (row, devices, _rest(row, labels, counted))
        for row in table.rows
        if (devices := _devices(row, counted))
    ]
    for measure in table.measures:
        column = table.columns[measure]
        if column.shared or "efficien" in column.header.lower():
            continue
        groups: dict[object, list[Point]] = defaultdict(list)
        for row, devices, rest in rows:
            if value := cell(row, measure):
                groups[rest].append((devices, value, row.name))
        for points in groups.values():
            yield from _accused(points, column.kind is ColumnKind.TIME, column.header)


def _by_columns(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    """Compare columns such as `1 GPU`, `2 GPUs`. Falling numbers are times."""
    named = [(count, i) for i, column in enumerate(table.columns) if (count := hands(column.header))]
    if len(named) < 2:
        return
    kinds = {table.columns[i].kind for _, i in named} - {ColumnKind.OTHER}
    faster = _OF_RATES.search(table.about)
    for row in table.rows:
        values = [(count, cell(row, i), table.columns[i].header) for count, i in sorted(named)]
        points = [(count, value, header) for count, value, header in values if value]
        if len(points) < 2 or len(kinds) > 1:
            continue
        falling = points[-1][1].value < points[0][1].value
        times = kinds == {ColumnKind.TIME} or (not kinds and falling)
        if kinds or falling or faster or _OF_RATES.search(row.text):
            for result in _accused(points, times, ""):
                if isinstance(result, Compared):
                    yield result
                else:
                    yield replace(result, rows=(row.name, *result.rows), text=f"{row.name}: {result.text}")


def _accused(points: Sequence[Point], times: bool, header: str) -> Iterator[TableFlaw | Compared]:
    ordered = sorted(points, key=lambda point: point[0])
    if len({count for count, _, _ in ordered}) != len(ordered) or len(ordered) < 2:
        return
    base, start, first = ordered[0]
    yield Compared("scaling", len(ordered) - 1)
    for count, value, name in ordered[1:]:
        gained = start.low / value.high if times else value.low / start.high if start.high else 0.0
        share, more = gained * base / count, count / base
        if share <= DOUBTFUL:
            continue
        middle = (start.value / value.value if times else value.value / start.value) * base / count
        where = f" in {header}" if header else ""
        text = (
            f"{name}{where} has {significant(middle * more, 3)} times the speed of {first} with {more:g} "
            f"times its devices: {100 * middle:.0f} % scaling"
        )
        yield TableFlaw(RULE, (name,), text, doubt=share <= IMPOSSIBLE)


def _stated(table: PublishedTable) -> Iterator[TableFlaw]:
    if not table.of(ColumnKind.DEVICES) and not any(_IN_TEXT.search(row.text) for row in table.rows):
        return
    for index in table.of(ColumnKind.EFFICIENCY):
        column = table.columns[index]
        if column.subject & {"energy", "power", "cost", "memory"}:
            continue
        in_percent = column.percent or any((v := r.cells[index]) and v.value > 20 for r in table.rows)
        whole = 100.0 if in_percent else 1.0
        for row in table.rows:
            value = row.cells[index]
            if value and value.low > DOUBTFUL * whole:
                text = f"{row.name} has {value.text} in {column.header}, above linear scaling"
                yield TableFlaw(RULE, (row.name,), text, doubt=value.low <= IMPOSSIBLE * whole)


def _devices(row: TableRow, counted: Sequence[int]) -> float | None:
    if values := [value.value for i in counted if (value := cell(row, i))]:
        return math.prod(values)
    matches = _IN_TEXT.findall(row.text)
    return float(matches[0][0]) if len(matches) == 1 and float(matches[0][0]) > 0 else None


def _rest(row: TableRow, labels: Sequence[int], counted: Sequence[int]) -> object:
    text = row.text if counted else _IN_TEXT.sub(r"# \2", row.text)
    return text, tuple(value.text for i in labels if (value := row.cells[i]))


def _grows(table: PublishedTable, index: int) -> bool:
    """Return whether a column is of results, such as accuracy: all its numbers differ."""
    texts = [value.text for row in table.rows if (value := row.cells[index])]
    return table.columns[index].kind is ColumnKind.OTHER and len(set(texts)) == len(texts) > 2
