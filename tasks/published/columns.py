"""The columns of a published table: what a header says, and the numbers below it with their rounding."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from tasks.errors import GridbenchError
from tasks.published.sizes import size_name
from tasks.published.table import Printed, PublishedColumn

SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "mins", "minutes"), 60.0),
    **dict.fromkeys(("h", "hours"), 3600.0),
}
MISSING = {"", "-", "–", "—", "n/a", "na", "none", "null", "oom", "failed", "timeout", "error", "skipped"}
SIZES = {"n", "m", "k", "size", "pixels", "batch", "width", "height", "length", "seq_len", "hidden", "nodes",
         "samples", "images", "items", "tokens", "examples", "elements", "flops", "bytes"}  # fmt: skip
_TIMES = {"time", "latency", "duration", "runtime", "elapsed", "walltime"}
_SPREADS = {"std", "stdev", "stddev", "sd", "err", "error", "stderr", "ci", "iqr", "deviation", "variance"}
_SPEEDUPS = {"speedup", "speedups", "acceleration"}
_FACTORS = {"": 1.0, "x": 1.0, "×": 1.0, "times": 1.0}
_ONLY_IN_BRACKETS = {"min", "mins", "h"}  # a column `min` is a minimum
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_RATE = re.compile(r"(?P<unit>[a-z]+)[ _]*(?:/|per[ _])[ _]*s(?:ec(?:ond)?)?(?![a-z])")
_COUNTED = re.compile(r"(?P<prefix>[kmgtp]?)(?P<what>flops?|b|bytes)")
_NUMBER = re.compile(
    r"(?P<number>[+-]?(?:\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}|\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?"
    r"|[+-]?inf(?:inity)?|nan)\s*(?P<unit>[a-zµμ×]*)",
    re.IGNORECASE | re.ASCII,
)


class ColumnKind(StrEnum):
    """The meaning of a column's numbers."""

    TIME = "time"
    SPEEDUP = "speedup"
    RATE = "rate"
    SIZE = "size"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Heading:
    """The meaning of a header. The unit of a size is its name."""

    kind: ColumnKind
    column: PublishedColumn


def heading(header: str) -> Heading:
    """Read the meaning of a column from its header alone."""
    plain, words = header.lower(), words_of(header)
    if words & _SPEEDUPS or {"speed", "up"} <= words:
        return Heading(ColumnKind.SPEEDUP, PublishedColumn(header))
    if rate := _RATE.search(plain):
        scale, unit = _counted(rate["unit"])
        return Heading(ColumnKind.RATE, PublishedColumn(header, unit, scale))
    if words & _SPREADS:
        return Heading(ColumnKind.OTHER, PublishedColumn(header))
    if time_unit := _unit_of_time(plain):
        return Heading(
            ColumnKind.TIME, PublishedColumn(header, time_unit, SECONDS[time_unit], each="per" in words)
        )
    if words & _TIMES:
        return Heading(ColumnKind.TIME, PublishedColumn(header, each="per" in words))
    scale, size = _counted(size_name(header))
    return Heading(
        ColumnKind.SIZE if size in SIZES else ColumnKind.OTHER, PublishedColumn(header, size, scale)
    )


def words_of(header: str) -> set[str]:
    """Return the words of a header, in small letters."""
    return set(re.findall(r"[a-zµμ]+", header.lower()))


def owner(column: PublishedColumn, times: Sequence[PublishedColumn], among: Sequence[int]) -> int | None:
    """Return the index of the column of times that a speedup's or rate's header names; None if unclear."""
    named = [i for i in among if words_of(column.header) & (words_of(times[i].header) - _TIMES - {*SECONDS})]
    candidates = named if len(named) == 1 else among
    return candidates[0] if len(candidates) == 1 else None


def numbers(
    header: Heading, cells: Sequence[str], row_name: Callable[[int], str]
) -> tuple[PublishedColumn, tuple[Printed | None, ...]]:
    """Read a column's numbers in the column's unit; None for a cell that says there is none.

    Raises:
        GridbenchError: a cell is no number, or a time has no unit; `row_name` describes its row.
    """
    column = header.column
    parsed = [_parsed(cell) for cell in cells]
    units = [unit for _, unit in filter(None, parsed) if unit]
    if header.kind is ColumnKind.TIME and not column.unit and units and units[0] in SECONDS:
        column = replace(column, unit=units[0], scale=SECONDS[units[0]])
    factors = _factors(header.kind, column)
    for row, (cell, cut) in enumerate(zip(cells, parsed, strict=True)):
        if cut is None and cell.lower() in MISSING:
            continue
        where = f"{row_name(row)}, column {column.header!r}"
        if header.kind is ColumnKind.TIME and not column.unit:
            raise GridbenchError(f"{where}: {cell!r} has no unit; write the header as '{column.header} (s)'")
        if cut is None or cut[1] not in factors:
            raise GridbenchError(
                f"{where}: {cell!r} is not a number such as 0.50; write a decimal point, no sign like ~ or <"
            )
        if header.kind is ColumnKind.SIZE and not 0 < float(cut[0]) < math.inf:
            raise GridbenchError(f"{where}: {cell!r} must be above 0")
    scaled = [cut and (cut[0], factors[cut[1]]) for cut in parsed]
    return column, _printed(scaled)


def _factors(kind: ColumnKind, column: PublishedColumn) -> dict[str, float]:
    """Return the units that a cell may have, with their factor to the column's unit."""
    if kind is ColumnKind.TIME:
        return {"": 1.0} | {unit: seconds / column.scale for unit, seconds in SECONDS.items()}
    return _FACTORS if kind is ColumnKind.SPEEDUP else {"": 1.0}


def _parsed(cell: str) -> tuple[Decimal, str] | None:
    """Parse a number and its unit; None for anything else."""
    match = _NUMBER.fullmatch(cell.strip())
    return (Decimal(match["number"].replace(",", "")), match["unit"].lower()) if match else None


def _printed(cells: Sequence[tuple[Decimal, float] | None]) -> tuple[Printed | None, ...]:
    """Return the numbers, each with the value of its last digit.

    Where the column has lost its closing zeros (0.5 beside 0.01), it is not known whether it was rounded to
    places or to digits: the coarser of both is taken, but nothing coarser than what stands there.
    """
    finite = [cell[0] for cell in cells if cell and cell[0].is_finite()]
    places = max((_places(number) for number in finite), default=0)
    digits = max((len(number.as_tuple().digits) for number in finite), default=1)
    kept = any(_places(number) > 0 and number.as_tuple().digits[-1] == 0 for number in finite)
    printed = []
    for cell in cells:
        number, factor = cell or (Decimal("nan"), 1.0)
        exponent = -_places(number)
        if not kept and number.is_finite():
            exponent = min(exponent, max(-places, number.adjusted() - digits + 1))
        value, step = float(number) * factor, 10.0**exponent * factor
        printed.append(Printed(_text(number, factor), value, step) if cell else None)
    return tuple(printed)


def _text(number: Decimal, factor: float) -> str:
    return str(number) if factor == 1.0 else f"{float(number) * factor:g}"


def _places(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _unit_of_time(header: str) -> str | None:
    """Return the unit in brackets or at the end of a header."""
    bracketed = re.findall(r"[(\[]\s*([a-zµμ]+)\s*[)\]]", header)
    last = re.findall(r"[a-zµμ]+", header)[-1:]
    units = [unit for unit in bracketed if unit in SECONDS]
    units += [unit for unit in last if unit in SECONDS and unit not in _ONLY_IN_BRACKETS]
    return units[0] if units else None


def _counted(unit: str) -> tuple[float, str]:
    """Return the number of units in one: `gflop` is 1e9 `flops`, `images` is one of `images`."""
    match = _COUNTED.fullmatch(unit)
    if match is None:
        return 1.0, unit
    return _PREFIXES[match["prefix"]], "flops" if match["what"].startswith("flop") else "bytes"
