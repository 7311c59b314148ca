"""Rows that sum up others, and operations with such names."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from tasks.published.columns import words_of
from tasks.published.rounded import cell
from tasks.published.sizes import word_set
from tasks.published.table import MEASURES, ColumnKind, Printed, PublishedColumn, TableRow
from tasks.results.values import Estimate

OPERATIONS = {"sum", "mean", "median"}  # alone, each is also the name of an operation
_TOTALS = {"total", "totals", "sum", "overall"}
_BESIDE_TOTAL = {"grand", "job", "run", "wall", "time", "runtime", "suite", "benchmark", "elapsed", "s"}
_AVERAGES = {"average", "averages", "avg", "mean", "geomean", "median", "subtotal"}
_KINDS = {"geometric", "geo", "arithmetic", "harmonic"}
_WHAT = word_set(
    "of all over the across models queries benchmarks tests cases runs speedup latency throughput"
)
_BESIDE_AVERAGE = _TOTALS | _BESIDE_TOTAL | _KINDS | _WHAT


def is_total(name: str) -> bool:
    """Return whether it names a sum of the others."""
    words = _words(name)
    return bool(words & _TOTALS) and words <= _TOTALS | _BESIDE_TOTAL


def is_average(name: str) -> bool:
    """Return whether it names only an average or a partial sum."""
    words = _words(name)
    return bool(words & _AVERAGES) and words <= _AVERAGES | _BESIDE_AVERAGE


def is_operation(name: str) -> bool:
    """Return True for such as `Median (5×5)`."""
    words = _words(name)
    return bool(words) and words <= OPERATIONS


def parted(
    rows: Sequence[TableRow], columns: Sequence[PublishedColumn]
) -> tuple[list[TableRow], list[TableRow]]:
    """Return measured rows, and their summaries.

    A possible operation is a summary only at the end, with the sum or a mean of the rows above. Averages
    among other rows are in neither list.
    """
    last = {id(row) for row in takewhile(_summary, reversed(rows))}
    ends = last | {id(row) for row in takewhile(_summary, rows)}
    above = [row for row in rows if not _summary(row) or (is_operation(row.name) and id(row) not in last)]

    def sums_up(row: TableRow) -> bool:
        if is_operation(row.name):
            return id(row) in last and _fits(row, above, columns)
        return is_total(row.name) or (is_average(row.name) and id(row) in ends)

    summing = [row for row in rows if sums_up(row)]
    kept, sums = {id(row) for row in above}, {id(row) for row in summing}
    measured = [r for r in rows if id(r) in kept or (is_operation(r.name) and id(r) not in sums)]
    return measured, summing


def sums(values: Iterable[Printed | None]) -> Estimate | None:
    """Return None if a number is missing or below zero."""
    known = [value if value and 0 <= value.value < math.inf else None for value in values]
    there = [value for value in known if value]
    if not there or len(there) != len(known):
        return None
    low, high = math.fsum(max(v.low, 0.0) for v in there), math.fsum(v.high for v in there)
    return Estimate(math.fsum(v.value for v in there), low, high)


def means(values: Sequence[Printed]) -> list[float]:
    """Return arithmetic, geometric and harmonic mean, and median."""
    numbers = sorted(v.value for v in values)
    count = len(numbers)
    middle = (numbers[(count - 1) // 2] + numbers[count // 2]) / 2
    harmonic = count / math.fsum(1 / n for n in numbers) if min(numbers) > 1e-300 else middle
    return [math.fsum(numbers) / count, math.exp(math.fsum(map(math.log, numbers)) / count), harmonic, middle]


def _summary(row: TableRow) -> bool:
    return is_total(row.name) or is_average(row.name)


def _fits(row: TableRow, rows: Sequence[TableRow], columns: Sequence[PublishedColumn]) -> bool:
    judged = [i for i, c in enumerate(columns) if c.kind in (*MEASURES, ColumnKind.COST) and cell(row, i)]
    fitting = [i for i in judged if _summed(row, rows, i)]
    return len(rows) > 1 and bool(fitting) and 2 * len(fitting) >= len(judged)


def _summed(row: TableRow, rows: Sequence[TableRow], index: int) -> bool:
    value, numbers = row.cells[index], [v for each in rows if (v := cell(each, index))]
    if value is None or not numbers:
        return False
    if not is_total(row.name):
        return any(abs(value.value - mean) <= value.step for mean in means(numbers))
    added = sums(each.cells[index] for each in rows)
    low, high = (added.low or 0.0, added.high or 0.0) if added else (math.inf, 0.0)
    return low <= value.value + value.step and value.value - value.step <= high


def _words(name: str) -> set[str]:
    return words_of(re.sub(r" \(row \d+\)$", "", name).partition(", ")[0])
