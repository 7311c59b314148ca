"""Types of a published table and of its review."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tasks.results.values import Estimate

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
MOST_COMPARED = 14  # columns of one kind that are compared with each other


@dataclass(frozen=True, slots=True)
class Printed:
    """A number of a table: a time in seconds, a rate in things a second, else as printed.

    Attributes:
        step: value of its last digit; the true value lies within half of that on either side.
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
        """Return whether it can be a time or a rate: finite and above zero."""
        return 0 < self.value < float("inf")


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of numbers.

    Attributes:
        unit: of a time, such as `ms`; of a rate, the things it counts; of a size or devices, its name.
        scale: seconds in a unit of time, things in a unit of rate (1e9 for GFLOP/s).
        sure: the scale is stated, not assumed; a price is by the hour.
        statistic: `min`, `p50`, `mean`, `max` …
        subject: words for the machine, library or phase.
        each: the value of one item of several, so it does not grow with their number.
        shared: the value for each device.
        fixed: the time of work that no column counts, such as an epoch.
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
    shared: bool = False
    fixed: bool = False
    percent: bool = False
    change: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line, its cells in the order of the columns, None for a cell without a number.

    Attributes:
        kind: the name without its sizes: rows of one kind can be compared by size.
        sizes: by name, from the row's name and from the columns of sizes.
        text: the line, in small letters.
    """

    name: str
    cells: tuple[Printed | None, ...]
    kind: str = ""
    sizes: Sizes = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table.

    Attributes:
        sums: rows named as the total, sum or average of others.
        about: the text of the whole file, in small letters.
        skipped: a sentence for each column that is not judged.
        assumed: a meaning that no header states, so that all findings are questions.
        unjudged: why nothing can be judged; else empty.
    """

    columns: tuple[PublishedColumn, ...]
    rows: tuple[TableRow, ...]
    sums: tuple[TableRow, ...] = ()
    about: str = ""
    skipped: tuple[str, ...] = ()
    lines: tuple[tuple[str, ...], ...] = ()
    assumed: str = ""
    unjudged: str = ""

    def of(self, *kinds: ColumnKind) -> list[int]:
        """Return the indices of the columns of these kinds, in order."""
        return [i for i, column in enumerate(self.columns) if column.kind in kinds]

    def some(self, *kinds: ColumnKind) -> list[int]:
        """Return the first columns of these kinds, at most `MOST_COMPARED`."""
        return self.of(*kinds)[:MOST_COMPARED]

    @property
    def measures(self) -> list[int]:
        """Return the indices of the columns of times and rates."""
        return self.of(*MEASURES)


@dataclass(frozen=True, slots=True)
class Claim:
    """The ratio of the printed times of two columns of a row, with the bounds of rounding.

    `printed` is the speedup that the table states.
    """

    row: str
    base: int
    side: int
    bounds: Estimate | None
    printed: Printed | None = None


@dataclass(frozen=True, slots=True)
class TableFlaw:
    """A mistake of a table, or a question about it.

    Attributes:
        rule: such as `copied row`.
        rows: names of its rows; empty for the whole table.
        doubt: it can be right, so it is a question.
    """

    rule: str
    rows: tuple[str, ...]
    text: str
    doubt: bool = False


class Compared(NamedTuple):
    """The count of numbers that a rule compared with others or with limits."""

    rule: str
    numbers: int


@dataclass(frozen=True, slots=True)
class TableReview:
    """The result of a review.

    Attributes:
        claims: one for each row and compared column of times.
        held: how many numbers were compared, by rule.
        overall: column, way of computing, and speedup of the whole.
        notes: on columns that were not judged, and on assumptions.
    """

    table: PublishedTable
    claims: tuple[Claim, ...] = ()
    findings: tuple[TableFlaw, ...] = ()
    overall: tuple[tuple[str, str, Estimate], ...] = ()
    notes: tuple[str, ...] = ()
    held: tuple[Compared, ...] = ()
