"""Types of a published table and its review."""

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
    """A number: seconds, things a second, else as printed.

    Attributes:
        step: of its last digit; the true value is within half of it.
    """

    text: str
    value: float
    step: float

    @property
    def low(self) -> float:
        return self.value - self.step / 2

    @property
    def high(self) -> float:
        return self.value + self.step / 2

    @property
    def above_zero(self) -> bool:
        """Return whether it can be a time or a rate."""
        return 0 < self.value < float("inf")


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of numbers.

    Attributes:
        unit: of a time, such as `ms`; a rate's things; a size's name.
        scale: seconds in a unit, or things (1e9 for GFLOP/s).
        sure: stated, not assumed; a price is by the hour.
        statistic: `min`, `p50`, `mean`, `max` …
        subject: words for machine, library or phase.
        each: of one item of several, so it does not grow with their number.
        shared: for each device.
        fixed: time of work that no column counts, such as an epoch.
        change: a difference from 1, such as `+12 %`.
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
    """Cells in the order of columns, None without a number.

    Attributes:
        kind: name without sizes: rows of one kind compare by size.
        sizes: from name and columns of sizes.
        text: in small letters.
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
        sums: totals, sums or averages of others.
        about: the whole file, in small letters.
        skipped: a sentence per column not judged.
        assumed: by no header, so that findings are questions.
        unjudged: why; else empty.
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
        return [i for i, column in enumerate(self.columns) if column.kind in kinds]

    def some(self, *kinds: ColumnKind) -> list[int]:
        """Return at most `MOST_COMPARED`."""
        return self.of(*kinds)[:MOST_COMPARED]

    @property
    def measures(self) -> list[int]:
        return self.of(*MEASURES)


@dataclass(frozen=True, slots=True)
class Claim:
    """The ratio of two columns' times, with rounding bounds.

    `printed`: the table's speedup.
    """

    row: str
    base: int
    side: int
    bounds: Estimate | None
    printed: Printed | None = None


@dataclass(frozen=True, slots=True)
class TableFlaw:
    """A mistake, or a question.

    Attributes:
        rule: such as `copied row`.
        rows: empty for the whole table.
        doubt: a question, since it can be right.
    """

    rule: str
    rows: tuple[str, ...]
    text: str
    doubt: bool = False


class Compared(NamedTuple):
    """How many numbers a rule compared."""

    rule: str
    numbers: int


@dataclass(frozen=True, slots=True)
class TableReview:
    """The result of a review.

    Attributes:
        claims: by row and compared column of times.
        held: numbers compared, by rule.
        overall: column, way, and the whole's speedup.
        notes: columns not judged, and assumptions.
    """

    table: PublishedTable
    claims: tuple[Claim, ...] = ()
    findings: tuple[TableFlaw, ...] = ()
    overall: tuple[tuple[str, str, Estimate], ...] = ()
    notes: tuple[str, ...] = ()
    held: tuple[Compared, ...] = ()
