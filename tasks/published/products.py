"""Products of other numbers, such as costs and shares of a peak."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from operator import mul
from statistics import median
from typing import NamedTuple

from tasks.published.columns import words_of
from tasks.published.peaks import named_gpu
from tasks.published.ratios import spread
from tasks.published.relations import Relation, best, distance, mapped
from tasks.published.rounded import cell, divided, interval, quotients
from tasks.published.summaries import sums
from tasks.published.table import ColumnKind, Compared, PublishedTable, TableFlaw, TableRow
from tasks.results.format import significant
from tasks.results.model import Machine
from tasks.results.values import Estimate

RULE = "product that its factors don't give"
PER_SECOND = 1 / 3600  # of an hour's price
NEAR = 0.04  # relative difference from a peak, whose rounding differs by source
FACTOR = 1.05  # ask about a factor of at least this that all rows are off by
MOST_FACTORS = 4  # columns of one kind
MOST_OTHERS = 50  # rows that are compared with all peaks on file
MOST_NUMBERS = 50_000  # products of one column
_WHOLE_RUN, _ANSWERS = (
    {"benchmark", "duration", "elapsed", "total", "wall"},
    {"output", "generated", "decode"},
)


class Product(NamedTuple):
    """A factor times some columns, over others."""

    scale: float
    above: tuple[int, ...]
    below: tuple[int, ...] = ()


def misproduced(table: PublishedTable, gpus: Mapping[str, Machine]) -> Iterator[TableFlaw | Compared]:
    """Report numbers that are not their product, if most rows' are."""
    for index, products in _products(table, gpus):
        column, values = table.columns[index], [row.cells[index] for row in table.rows]
        most = max(MOST_FACTORS, MOST_NUMBERS // len(values))
        relations = [_relation(table, each, len(products) == 1) for each in products[:most]]
        if result := best(values, relations):
            yield Compared("products", result.judged)
            for row, value, bounds in result.wrong(values):
                gives = spread(mapped(bounds, partial(mul, 1 / column.scale)))
                text = (
                    f"{table.rows[row].name} has {value.text} in {column.header}, but {result.relation.words} "
                    f"gives {gives} there, and the printed value in {result.agreeing} other rows"
                )
                yield TableFlaw(RULE, (table.rows[row].name,), text)
        elif relations and (flaw := _constant(table, index, relations[0])):
            yield flaw
    yield from _counts_of_runs(table)


def _products(table: PublishedTable, gpus: Mapping[str, Machine]) -> Iterator[tuple[int, Sequence[Product]]]:
    columns = table.columns
    times = [i for i in table.of(ColumnKind.TIME) if not columns[i].statistic][:MOST_FACTORS]
    prices = table.of(ColumnKind.PRICE)[:MOST_FACTORS]
    rates = table.some(ColumnKind.RATE)
    things = [i for i in rates if columns[i].unit not in ("bytes", "flops")][:MOST_FACTORS]
    counted = tuple(table.of(ColumnKind.DEVICES)[:3])
    devices = [*((i,) for i in counted), *([counted] if len(counted) > 1 else [])]
    for cost in table.some(ColumnKind.COST):
        if columns[cost].each:
            pairs = list(product(prices, things))
            choices = [Product(PER_SECOND, (price,), (rate,)) for price, rate in pairs]
            choices += [
                Product(PER_SECOND, (p, *many), (rate,)) for (p, rate), many in product(pairs, devices)
            ]
            choices += [
                Product(PER_SECOND, (p,), (rate, *many)) for (p, rate), many in product(pairs, devices)
            ]
        else:
            choices = [
                Product(PER_SECOND, (t, p, *many)) for t, p, many in product(times, prices, [(), *devices])
            ]
        yield cost, choices
    yield from _multiples(table, rates, devices, gpus)


def _multiples(
    table: PublishedTable,
    rates: Sequence[int],
    devices: Sequence[tuple[int, ...]],
    gpus: Mapping[str, Machine],
) -> Iterator[tuple[int, Sequence[Product]]]:
    columns = table.columns
    for shared in (i for i in rates if columns[i].shared):
        whole = [i for i in rates if not columns[i].shared and columns[i].unit == columns[shared].unit]
        if len(whole) == 1:
            yield shared, [Product(1.0, (whole[0],), many) for many in devices]
    for first, second in combinations([i for i in rates if columns[i].sure], 2):
        one, other = (replace(columns[i], header="", scale=1.0) for i in (first, second))
        if columns[first].scale != columns[second].scale and one == other:
            yield second, [Product(1.0, (first,))]
    for bus in (i for i in rates if "busbw" in columns[i].subject):
        if left := [i for i in rates if i < bus and "algbw" in columns[i].subject]:
            yield bus, _constant_of(table, bus, left[-1])
    for share in table.some(ColumnKind.SHARE):
        flops = [i for i in rates if columns[i].unit == "flops"]
        if len(flops) == 1 and columns[share].subject & {"mfu", "hfu"}:
            yield share, _of_peak(table, share, flops[0], gpus)


def _of_peak(table: PublishedTable, share: int, rate: int, gpus: Mapping[str, Machine]) -> list[Product]:
    """Return the middle row's share of its rate, if no row can have another GPU's."""
    peaks = [100 * each.value for each in quotients(table, rate, share) if each]
    published = [peak for gpu in gpus.values() for _, peak in gpu.peak_flops]
    middle = median(peaks) if peaks else 0.0
    others = [peak for peak in peaks if abs(peak - middle) > NEAR * middle][:MOST_OTHERS]
    if any(abs(other / peak - 1) < NEAR for other in others for peak in published):
        named = {gpu.name if (gpu := named_gpu(row.text, gpus)) else row.name for row in table.rows}
        return _constant_of(table, share, rate) if len(named) == 1 else []
    return _constant_of(table, share, rate)


def _constant_of(table: PublishedTable, index: int, other: int) -> list[Product]:
    factors = [each.value for each in quotients(table, index, other) if each]
    return [Product(median(factors), (other,))] if len(factors) > 3 else []


def _relation(table: PublishedTable, made: Product, named: bool) -> Relation:
    above, below = ([table.columns[i].header for i in indices] for indices in (made.above, made.below))
    words = " × ".join(above) + (f" over {' and '.join(below)}" if below else "")
    return Relation(words, tuple(_value(row, made) for row in table.rows), named=named)


def _value(row: TableRow, made: Product) -> Estimate | None:
    over, under = ([cell(row, i) for i in indices] for indices in (made.above, made.below))
    if None in over or any(value is None or value.low <= 0 for value in under):
        return None
    value, low, high = (
        made.scale * math.prod(getattr(v, a) for v in over) / math.prod(getattr(v, b) for v in under)
        for a, b in (("value", "value"), ("low", "high"), ("high", "low"))
    )
    return Estimate(value, max(low, 0.0), high) if 0 < value < math.inf else None


def _constant(table: PublishedTable, index: int, relation: Relation) -> TableFlaw | None:
    values = [cell(row, index) for row in table.rows]
    pairs = [(value, b) for value, b in zip(values, relation.bounds, strict=True) if value and b]
    factors = [value.value / bounds.value for value, bounds in pairs]
    exact = any(distance(value, bounds) == 0 for value, bounds in pairs)
    if len(factors) < 2 or exact or max(factors) > FACTOR * min(factors):
        return None
    text = f"{table.columns[index].header} is {significant(median(factors), 3)} times {relation.words} in every row"
    return TableFlaw(RULE, (), f"{text}: is another unit meant?", doubt=True)


def _counts_of_runs(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    """Report a run's rates unlike its counts over its duration, if another rate agrees."""
    columns = table.columns
    spent = [i for i in table.of(ColumnKind.TIME) if columns[i].subject <= _WHOLE_RUN]
    spent = [i for i in spent if words_of(columns[i].header) & _WHOLE_RUN]
    for row in table.rows if len(spent) == 1 else ():
        off, held = [], 0
        for index in table.of(ColumnKind.RATE):
            unit, subject, value = columns[index].unit, columns[index].subject, cell(row, index)
            counted = [i for i in table.of(ColumnKind.SIZE) if columns[i].unit.endswith(f"_{unit}")]
            if subject & _ANSWERS:
                counted = [i for i in counted if columns[i].subject & _ANSWERS]
            elif unit == "tokens" and len(counted) < 2:
                continue  # those of prompts or of answers are not in the table
            counts = [*((i,) for i in counted), *combinations(counted, 2)]
            bounds = [rate for each in counts if (rate := _per_second(row, each, spent[0]))]
            if value and bounds and not subject & {"peak", "max"}:
                agrees = any(distance(value, each) <= FACTOR - 1 for each in bounds)
                held += agrees
                off += [] if agrees else [(columns[index].header, value, bounds)]
        yield Compared("counts over a duration", held)
        for header, value, bounds in off if held else ():
            gives = " or ".join(significant(each.value, 4) for each in bounds)
            text = f"{row.name} has {value.text} in {header}, but counts over the duration give {gives}"
            yield TableFlaw(RULE, (row.name,), text)


def _per_second(row: TableRow, counts: tuple[int, ...], time: int) -> Estimate | None:
    counted, spent = sums(row.cells[i] for i in counts), cell(row, time)
    return divided(counted, interval(spent)) if counted and spent and spent.low > 0 else None
