"""Ratios of printed numbers, with rounding bounds."""

from tasks.published.table import Printed, PublishedTable, TableRow
from tasks.results.format import ratio_of_rounded
from tasks.results.values import Estimate

FLOATS = 1e-9  # relative error of an end by floating-point arithmetic


def cell(row: TableRow, index: int) -> Printed | None:
    """Return a number that can be a time or a rate."""
    value = row.cells[index]
    return value if value and value.above_zero else None


def ratio(over: Printed, under: Printed) -> Estimate:
    return ratio_of_rounded(over.value, under.value, over.step, under.step)


def quotient(over: Printed | None, under: Printed | None) -> Estimate | None:
    return ratio(over, under) if over and under else None


def quotients(table: PublishedTable, over: int, under: int) -> tuple[Estimate | None, ...]:
    return tuple(quotient(cell(row, over), cell(row, under)) for row in table.rows)


def divided(over: Estimate, under: Estimate) -> Estimate:
    """Return one estimate above zero over another."""
    high = (over.high or 0.0) / under.low if under.low else float("inf")
    return Estimate(over.value / under.value, (over.low or 0.0) / (under.high or 1.0), high)


def beyond(first: Estimate, second: Estimate) -> bool:
    """Return whether intervals are disjoint, beyond floating-point error."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return first.low > second.high * (1 + FLOATS) or first.high * (1 + FLOATS) < second.low


def interval(value: Printed) -> Estimate:
    return Estimate(value.value, value.low, value.high)
