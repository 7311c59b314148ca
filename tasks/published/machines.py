"""A fast card that is slow, or a large model that is fast."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

from tasks.published.peaks import named_gpu
from tasks.published.rounded import cell
from tasks.published.shapes import Shapes, shape_of
from tasks.published.table import ColumnKind, Printed, PublishedTable, TableFlaw
from tasks.results.format import significant
from tasks.results.model import Machine

LARGER = 4.0  # a model this many times as large should not be faster
BANDWIDTH = 5.0  # a card with this many times another's bandwidth should not be slower in every column
MOST_ROWS = 100
RULE = "slower than smaller work or a smaller card"
_MODEL = re.compile(r"(?<![\w.-])(?:[a-z]+[- ]?\d?[.-])?(\d{1,4}(?:\.\d+)?)b\b(?!/)")
_SPARSE = re.compile(r"a\d+(?:\.\d+)?b\b|\d\s?x\s?\d+b\b|moe|mixtral")
Point = tuple[str, float, Printed]


def unlikely(
    table: PublishedTable, gpus: Mapping[str, Machine], shapes: Shapes | None
) -> Iterator[TableFlaw]:
    yield from _large_and_fast(table)
    yield from _fast_and_slow(table, gpus, shapes)


def _large_and_fast(table: PublishedTable) -> Iterator[TableFlaw]:
    groups: dict[tuple[ColumnKind, object], list[Point]] = defaultdict(list)
    numbered = table.of(ColumnKind.OTHER)
    for row in table.rows[:MOST_ROWS]:
        named_by = " ".join([row.text, *(v.text.lower() for i in numbered if (v := row.cells[i]))])
        for index in table.measures:
            column, value = table.columns[index], cell(row, index)
            texts = {"row": named_by, "column": column.header.lower()}
            sizes = {where: _MODEL.findall(text) for where, text in texts.items()}
            named = [where for where, sizes_there in sizes.items() if len(sizes_there) == 1]
            used = column.unit in ("bytes", "flops")  # a large model uses more of the card
            if used or not value or len(named) != 1 or sum(map(len, sizes.values())) != 1 or _sparse(texts):
                continue
            key = tuple(_MODEL.sub("#", text) for text in texts.values())
            others = tuple(
                v.text for i in table.of(ColumnKind.DEVICES, ColumnKind.SIZE) if (v := row.cells[i])
            )
            where = row.name if named == ["row"] else f"{row.name}, {column.header}"
            groups[column.kind, (named[0], key, others)].append((where, float(sizes[named[0]][0]), value))
    for (kind, _), points in groups.items():
        for small, large in combinations(sorted(points, key=lambda point: point[1])[:MOST_ROWS], 2):
            times = large[1] / small[1] if small[1] else 0.0
            faster = large[2].low > small[2].high if kind is ColumnKind.RATE else large[2].high < small[2].low
            if times >= LARGER and faster:
                text = (
                    f"{large[0]} has {large[2].text}, and {small[0]} has {small[2].text}: "
                    f"a model {significant(times, 2)} times as large is faster"
                )
                yield TableFlaw(RULE, (large[0], small[0]), text, doubt=True)


def _sparse(texts: Mapping[str, str]) -> bool:
    return any(_SPARSE.search(text) for text in texts.values())


def _fast_and_slow(
    table: PublishedTable, gpus: Mapping[str, Machine], shapes: Shapes | None
) -> Iterator[TableFlaw]:
    measures = [i for i in table.measures if not table.columns[i].statistic]
    named = []
    for row in table.rows[:MOST_ROWS]:
        shape = shape_of(row.text, shapes) if shapes else None
        gpu = named_gpu(shape.gpu if shape and shape.gpu else row.text, gpus)
        if gpu and gpu.peak_bytes_per_s:
            named.append((row, gpu, gpu.peak_bytes_per_s))
    for first, second in combinations(named if len(measures) > 1 else (), 2):
        (fast, gpu, _), (slow, less, _) = sorted((first, second), key=lambda each: -each[2])
        pairs = [
            (table.columns[i].kind, a, b) for i in measures if (a := cell(fast, i)) and (b := cell(slow, i))
        ]
        behind = all(a.high < b.low if kind is ColumnKind.RATE else a.low > b.high for kind, a, b in pairs)
        if max(first[2], second[2]) > BANDWIDTH * min(first[2], second[2]) and len(pairs) > 1 and behind:
            text = (
                f"{fast.name} is slower than {slow.name} in every column, with "
                f"{significant((gpu.peak_bytes_per_s or 0.0) / (less.peak_bytes_per_s or 1.0), 2)} times its bandwidth"
            )
            yield TableFlaw(RULE, (fast.name, slow.name), text, doubt=True)
