"""Types of a published table of times and of its review."""

from dataclasses import dataclass

from tasks.results.format import ratio_of_rounded
from tasks.results.values import Estimate

FLOATS = 1e-9  # what arithmetic may have moved an end by
Sizes = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Printed:
    """A number as a table prints it, in the unit of its column.

    Attributes:
        text: what stands there, without a unit.
        step: what its last digit is worth; the true value lies within half of that on either side.
    """

    text: str
    value: float
    step: float

    @property
    def low(self) -> float:
        """Return the least value that rounds to it."""
        return self.value - self.step / 2

    @property
    def high(self) -> float:
        """Return the greatest value that rounds to it."""
        return self.value + self.step / 2


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of numbers.

    Attributes:
        header: as it stands in the table.
        unit: of a time, such as `ms`; of a rate, what it counts, such as `images`; else empty.
        scale: seconds in one unit of a time, things in one unit of a rate (1e9 for GFLOP/s).
        times_index: for a speedup or a rate, the index of its column of times; None if unclear.
        each: a time is that of one item of several, so it doesn't grow with their number.
    """

    header: str
    unit: str = ""
    scale: float = 1.0
    times_index: int | None = None
    each: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """One operation. Its numbers are in the order of the table's columns, None where nothing is printed.

    Attributes:
        kind: the name without its sizes, in small letters: rows of one kind can be compared by size.
        sizes: what grows the work, by name: read from the name and from the columns of sizes.
    """

    name: str
    times: tuple[Printed | None, ...]
    speedups: tuple[Printed | None, ...] = ()
    rates: tuple[Printed | None, ...] = ()
    kind: str = ""
    sizes: Sizes = ()


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table as it was read.

    Attributes:
        rows: the operations, in order.
        total: the row that says it is the sum of the others; None where there is none.
        base: the index of the column of times that speedups are taken against.
        skipped: what was not read, in words: columns and rows that no rule knows.
    """

    times: tuple[PublishedColumn, ...]
    rows: tuple[TableRow, ...]
    speedups: tuple[PublishedColumn, ...] = ()
    rates: tuple[PublishedColumn, ...] = ()
    total: TableRow | None = None
    base: int = 0
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """The speedup of a row in one column of times over the base column.

    Attributes:
        bounds: the ratio of the printed times, and how far their rounding lets it vary; None where a time is
            missing or is none.
        printed: what the table says; None where it says nothing.
    """

    row: str
    column: str
    bounds: Estimate | None
    printed: Printed | None = None


@dataclass(frozen=True, slots=True)
class TableFlaw:
    """Something that can't be so, or that the printed digits don't support.

    Attributes:
        rule: its name, such as `copied row`.
        rows: the rows it is about; empty where it is about the table.
        text: a sentence, with the numbers.
    """

    rule: str
    rows: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class TableReview:
    """The result of a review.

    Attributes:
        claims: one per row and column of times beside the base, in order.
        overall: the speedup of the whole, by the column and by the way it is taken.
        notes: what was not judged, and what was assumed.
    """

    table: PublishedTable
    claims: tuple[Claim, ...]
    findings: tuple[TableFlaw, ...] = ()
    overall: tuple[tuple[str, str, Estimate], ...] = ()
    notes: tuple[str, ...] = ()


def ratio(row: TableRow, columns: tuple[PublishedColumn, ...], base: int, side: int) -> Estimate | None:
    """Return base time over the other time with the bounds of their rounding; None without two times."""
    over, under = row.times[base], row.times[side]
    if over is None or under is None or not (is_time(over) and is_time(under)):
        return None
    scale = columns[base].scale / columns[side].scale
    return ratio_of_rounded(over.value * scale, under.value, over.step * scale, under.step)


def is_time(printed: Printed) -> bool:
    """Return True if a number can be a time: finite and above zero."""
    return 0 < printed.value < float("inf")


def others(table: PublishedTable) -> list[int]:
    """Return the indices of the columns of times beside the base."""
    return [index for index in range(len(table.times)) if index != table.base]


def beyond(first: Estimate, second: Estimate) -> bool:
    """Return True if two intervals are disjoint, allowing for floating-point error."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return first.low > second.high * (1 + FLOATS) or first.high * (1 + FLOATS) < second.low


def interval(printed: Printed) -> Estimate:
    """Return a printed number with the bounds of its rounding."""
    return Estimate(printed.value, printed.low, printed.high)
