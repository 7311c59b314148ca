"""Units of tables, by pint."""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from tasks.published.table import ColumnKind

if TYPE_CHECKING:
    import pint

MOST_TEXT = 40  # characters of a unit
_PER_SECOND = re.compile(r"([kmgtp]?)(f|q|r|t|i|o|io|b)ps")
_COUNTED = {"f": "frames", "q": "queries", "r": "requests", "t": "tokens", "i": "items", "b": "bits"}
_MANY = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "b": 1e9, "billion": 1e9}
_COUNT = re.compile(rf"/(\d+(?:\.\d+)?)?({'|'.join(_MANY)})?\s*(?=tok|item|ima?ge?|sample|req|output|input)")
_DEVICE_TIME = re.compile(
    r"\b(gpu|device|card|chip|node|core|instance)s?[- ](?=(h|hr|hours?|s|seconds?|days?)\b)"
)
_SIGNS = {
    " per ": "/",
    "us$": "usd",
    "$": "usd",
    "€": "eur",
    "£": "gbp",
    "µ": "u",
    "μ": "u",
    "·": "*",
    "_": " ",
}
_TIMES = {"second", "millisecond", "microsecond", "nanosecond", "minute", "hour", "day", "month"}
# The kind of a unit by the powers of its dimensions but devices, and whether it is of one item.
KINDS = {
    "time+1": (ColumnKind.TIME, False),
    "item-1 time+1": (ColumnKind.TIME, True),
    "item+1 time-1": (ColumnKind.RATE, False),
    "data+1 time-1": (ColumnKind.RATE, False),
    "time-1 work+1": (ColumnKind.RATE, False),
    "money+1 time-1": (ColumnKind.PRICE, False),
    "money+1": (ColumnKind.COST, False),
    "item-1 money+1": (ColumnKind.COST, True),
    "work+1": (ColumnKind.SIZE, False),
    "data+1": (ColumnKind.SIZE, False),
}


class Unit(NamedTuple):
    """A stated unit.

    Attributes:
        scale: seconds, things a second, or USD an hour in one of it; USD for each item.
        what: counted things, such as `tokens`; of a time, the unit.
        each: of one item, or for all devices together.
        shared: for each device.
    """

    kind: ColumnKind
    scale: float
    what: str
    each: bool = False
    shared: bool = False


@cache
def _registry() -> "pint.UnitRegistry[float]":
    import pint  # only if there is a table: it takes half a second

    return pint.UnitRegistry(str(Path(__file__).with_name("units.txt")))


@lru_cache(maxsize=4096)
def unit_of(text: str) -> Unit | None:
    """Read such as `tok/s/GPU` or `$/1M tokens`."""
    plain = " ".join(text.lower().split())
    for sign, word in _SIGNS.items():
        plain = plain.replace(sign, word)
    plain = _DEVICE_TIME.sub(r"\1*", re.sub(r"\s*([/*])\s*", r"\1", plain))
    if len(plain) > MOST_TEXT or plain.count("/") > 3:
        return None
    divisor = 1.0
    for number, word in _COUNT.findall(plain):
        divisor *= float(number or 1) * _MANY.get(word, 1.0)
    upper, *lower = _COUNT.sub("/", plain).split("/")
    if match := _PER_SECOND.fullmatch(upper) if upper != "ops" or not lower else None:
        upper, lower = f"{match[1]}{_COUNTED.get(match[2], 'operations')}", ["s", *lower]
    elif upper.endswith("flops") and {"s", "sec", "second"} & {*lower}:
        upper = upper.removesuffix("s")
    # Of `output tok`, the last word: those before it say which.
    atoms = [[(word.split() or [""])[-1] for word in part.split("*")] for part in (upper, *lower)]
    timed = any(_dimensions(word) == {"[time]": 1} for part in atoms for word in part)
    if not all(_dimensions(word) or (timed and word.isalpha()) for part in atoms for word in part):
        return None
    above, *below = ([word if _dimensions(word) else "items" for word in part] for part in atoms)
    return _unit(
        "/".join(["*".join(above), *(word for part in below for word in part)]), atoms[0][-1], divisor
    )


def _unit(text: str, what: str, divisor: float) -> Unit | None:
    unit = _registry().parse_units(text)
    powers = {name.strip("[]"): cast(float, power) for name, power in unit.dimensionality.items()}
    devices = powers.pop("device", 0.0)
    kind, each = KINDS.get(
        " ".join(f"{name}{power:+g}" for name, power in sorted(powers.items())), (None, False)
    )
    # No table has kiloseconds: `TS` and `kH` are names.
    if kind is None or any(_dimensions(name) == {"[time]": 1} and name not in _TIMES for name in unit._units):
        return None
    scale = float((1 * unit).to_root_units().magnitude) / divisor
    if kind in (ColumnKind.RATE, ColumnKind.SIZE):
        dimension = _dimensions(what)
        named = _registry().parse_unit_name(what)[0][1] if dimension else what
        what = "bytes" if "[data]" in dimension else "flops" if "[work]" in dimension else named
    elif kind is not ColumnKind.TIME:
        what = ""
    scale *= 3600.0 if kind is ColumnKind.PRICE else 1.0
    return Unit(kind, scale, what, each or devices > 0, devices < 0)


@lru_cache(maxsize=4096)
def _dimensions(word: str) -> dict[str, float]:
    parsed = word.isalpha() and word.isascii() and _registry().parse_unit_name(word)
    powers = _registry().get_dimensionality(word).items() if parsed else ()
    return {name: cast(float, power) for name, power in powers}
