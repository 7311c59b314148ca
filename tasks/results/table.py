"""A table of typed values, which each output renders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from tasks.results.format import (
    format_duration,
    format_energy,
    format_estimate,
    format_percent,
    format_ratio,
    format_seconds,
    format_usd,
    significant,
)
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import bytes_text, price_text

LARGEST_PARTS = 3  # parts of a sum that one cell of text names
NOTHING = "–"


class Quantity(StrEnum):
    """The quantity in a column, which decides how a value is written."""

    TEXT = "text"
    MACHINE = "machine"
    TIME = "time"
    DURATION = "duration"
    BYTES = "bytes"
    MONEY = "money"
    PRICE = "price"
    RATIO = "ratio"
    SHARE = "share"
    ENERGY = "energy"
    POWER = "power"
    COUNT = "count"
    CALLS = "calls"
    VERDICT = "verdict"
    PARTS = "parts"


UNITS = {
    Quantity.TIME: "s",
    Quantity.DURATION: "s",
    Quantity.BYTES: "bytes",
    Quantity.MONEY: "USD",
    Quantity.PRICE: "USD/h",
    Quantity.RATIO: "1",
    Quantity.SHARE: "1",
    Quantity.ENERGY: "J",
    Quantity.POWER: "W",
    Quantity.COUNT: "1",
    Quantity.CALLS: "1",
    Quantity.PARTS: "s",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and its quantity."""

    title: str
    quantity: Quantity = Quantity.TEXT

    @property
    def unit(self) -> str:
        """Return empty for words."""
        return UNITS.get(self.quantity, "")


@dataclass(frozen=True, slots=True)
class Mark:
    """A verdict in words; `outcome` is good, bad or undecided, None for neither."""

    text: str
    outcome: RatioVerdict | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds by part.

    `length`: share (0 to 1) of the column's longest bar.
    """

    seconds: tuple[tuple[str, float], ...]
    length: float = 1.0

    @property
    def total_s(self) -> float:
        return sum(seconds for _, seconds in self.seconds)


Value = str | int | float | Estimate | Ratio | Mark | Parts | None


@dataclass(frozen=True, slots=True)
class Table:
    """A finding's table.

    Attributes:
        rows: a value or None for each column.
        lead: sentences above it, `notes` below.
        brief: rows that people see; programs get all.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    lead: str = ""
    notes: tuple[str, ...] = ()
    brief: int | None = None

    @property
    def shown(self) -> tuple[tuple[Value, ...], ...]:
        return self.rows[: self.brief]

    def filled(self, rows: Sequence[Sequence[Value]]) -> list[int]:
        """Return columns with a value in some row."""
        return [i for i in range(len(self.columns)) if any(row[i] not in (None, "") for row in rows)]


def cell_text(value: Value, quantity: Quantity) -> str:
    """Return value, interval and unit; a dash for None."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, str | Mark):
        return value if isinstance(value, str) else value.text or NOTHING
    if isinstance(value, Parts):
        return parts_text(value)
    if isinstance(value, Ratio):
        return format_ratio(value)
    if isinstance(value, Estimate):
        return _estimate_text(value, quantity)
    return _number_text(value, quantity)


def parts_text(parts: Parts, most: int = LARGEST_PARTS) -> str:
    """Return the largest parts with their shares."""
    largest = sorted(parts.seconds, key=lambda part: -part[1])[:most]
    whole = parts.total_s or 1.0
    return ", ".join(f"{name} {100 * (seconds / whole):.0f} %" for name, seconds in largest)


def _estimate_text(value: Estimate, quantity: Quantity) -> str:
    write: dict[Quantity, Callable[[Estimate], str]] = {
        Quantity.TIME: format_seconds,
        Quantity.DURATION: format_duration,
        Quantity.MONEY: format_usd,
        Quantity.SHARE: format_percent,
        Quantity.COUNT: partial(format_estimate, unit=""),
        Quantity.ENERGY: format_energy,
        Quantity.POWER: partial(format_estimate, unit=" W"),
    }
    return write.get(quantity, format_ratio)(value)


def _number_text(value: float, quantity: Quantity) -> str:
    write: dict[Quantity, Callable[[float], str]] = {
        Quantity.TIME: format_seconds,
        Quantity.DURATION: format_duration,
        Quantity.BYTES: bytes_text,
        Quantity.MONEY: format_usd,
        Quantity.PRICE: price_text,
    }
    if quantity in write:
        return write[quantity](value)
    if quantity is Quantity.ENERGY and abs(value) < 1:
        return format_energy(value)
    if quantity is Quantity.SHARE:
        return f"{significant(100 * value, 2)} %"
    if quantity is Quantity.RATIO:
        return f"{significant(value, 3)}×"
    if quantity is Quantity.CALLS:
        return f"about {significant(value, 2)}"
    text = str(value) if isinstance(value, int) else significant(value, 3)
    if text.lstrip("-").isdecimal():
        text = f"{int(text):,}"
    unit = UNITS[quantity] if quantity in (Quantity.ENERGY, Quantity.POWER) else ""
    return f"{text} {unit}".rstrip()
