"""Types of a published table and of its review."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tasks.results.format import ratio_of_rounded
from tasks.results.values import Estimate

FLOATS = 1e-9  # what arithmetic may have moved an end by
Sizes = tuple[tuple[str, float], ...]


class ColumnKind(StrEnum):
    """The meaning of a column's numbers."""

    TIME = "time"
    RATE = "rate"
    RATIO = "ratio"
    EFFICIENCY = "efficiency"
    SHARE = "share"
    DEVICES = "devices"
    SIZE = "size"
    PRICE = "price"
    COST = "cost"
    OTHER = "other"


MEASURES = (ColumnKind.TIME, ColumnKind.RATE)


@dataclass(frozen=True, slots=True)
class Printed:
    """A number as a table prints it: a time in seconds, a rate in things a second, else as it stands.

    Attributes:
        text: what stands there.
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

    @property
    def above_zero(self) -> bool:
        """Return True if it can be a time or a rate: finite and above zero."""
        return 0 < self.value < float("inf")


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of numbers.

    Attributes:
        header: as it stands in the table.
        unit: of a time, such as `ms`; of a rate, what it counts; of a size or devices, its name.
        scale: seconds in one unit of a time, things in one unit of a rate (1e9 for GFLOP/s).
        sure: the scale is stated, not assumed.
        statistic: `min`, `p50`, `mean`, `max` …, where the header names one.
        subject: the words that say of which machine, library or phase it is.
        each: it is that of one item of several, so it doesn't grow with their number.
        percent: a ratio is in percent.
        change: a ratio is a difference from 1, such as `+12 %`.
    """

    header: str
    kind: ColumnKind = ColumnKind.OTHER
    unit: str = ""
    scale: float = 1.0
    sure: bool = False
    statistic: str = ""
    subject: frozenset[str] = frozenset()
    each: bool = False
    percent: bool = False
    change: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line. Its cells are in the order of the table's columns, None where no number is printed.

    Attributes:
        kind: the name without its sizes, in small letters: rows of one kind can be compared by size.
        sizes: what grows the work, by name: read from the name and from the columns of sizes.
        text: all that the line says in words, in small letters.
    """

    name: str
    cells: tuple[Printed | None, ...]
    kind: str = ""
    sizes: Sizes = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table as it was read.

    Attributes:
        rows: the operations, in order.
        sums: rows that call themselves the total, sum or average of the others.
        about: what the file says around the tables, in small letters.
        skipped: what was not read, in words.
        lines: the header and the rows as text.
    """

    columns: tuple[PublishedColumn, ...]
    rows: tuple[TableRow, ...]
    sums: tuple[TableRow, ...] = ()
    about: str = ""
    skipped: tuple[str, ...] = ()
    lines: tuple[tuple[str, ...], ...] = ()

    def of(self, *kinds: ColumnKind) -> list[int]:
        """Return the indices of the columns of these kinds, in order."""
        return [i for i, column in enumerate(self.columns) if column.kind in kinds]


@dataclass(frozen=True, slots=True)
class Claim:
    """The ratio of two columns of a row, as its printed times give it.

    Attributes:
        bounds: the ratio, and how far the rounding of the two numbers lets it vary.
        printed: the speedup that the table states; None where it says nothing.
    """

    row: str
    base: int
    side: int
    bounds: Estimate | None
    printed: Printed | None = None


@dataclass(frozen=True, slots=True)
class TableFlaw:
    """Something that can't be so, or that a reader should ask about.

    Attributes:
        rule: its name, such as `copied row`.
        rows: the rows it is about; empty where it is about the table.
        text: a sentence, with the numbers.
        doubt: it may be true all the same: a question, no accusation.
    """

    rule: str
    rows: tuple[str, ...]
    text: str
    doubt: bool = False


@dataclass(frozen=True, slots=True)
class TableReview:
    """The result of a review.

    Attributes:
        claims: one per row, where two columns of times are compared.
        overall: the speedup of the whole, by the column and by the way it is taken.
        notes: what was not judged, and what was assumed.
    """

    table: PublishedTable
    claims: tuple[Claim, ...] = ()
    findings: tuple[TableFlaw, ...] = ()
    overall: tuple[tuple[str, str, Estimate], ...] = ()
    notes: tuple[str, ...] = ()


def cell(row: TableRow, index: int) -> Printed | None:
    """Return a number of a row that can be a time or a rate; None where there is none."""
    value = row.cells[index]
    return value if value and value.above_zero else None


def ratio(over: Printed, under: Printed) -> Estimate:
    """Return one number over another with the bounds of their rounding."""
    return ratio_of_rounded(over.value, under.value, over.step, under.step)


def beyond(first: Estimate, second: Estimate) -> bool:
    """Return True if two intervals are disjoint, allowing for floating-point error."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return first.low > second.high * (1 + FLOATS) or first.high * (1 + FLOATS) < second.low


def interval(value: Printed) -> Estimate:
    """Return a printed number with the bounds of its rounding."""
    return Estimate(value.value, value.low, value.high)


def listed(words: Iterable[str]) -> str:
    """Join words as a sentence does: `a, b and c`."""
    parts = list(words)
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
