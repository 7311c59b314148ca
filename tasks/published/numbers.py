"""Printed numbers: units, errors, separators, decimal commas."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from tasks.published.table import Printed

MISSING = {"", "-", "–", "—", "--", "---", "n/a", "na", "none", "null", "oom", "failed", "timeout", "error",
           "skipped", "n.a.", "nan", "tbd", "?", "x", "/", "...", "…", "×", "✗", "✘"}  # fmt: skip
ABOUT = 0.1  # relative error of a number that is marked as rough
MOST_EXPONENT = 300  # beyond it a float can't hold a number and its neighbours
_THOUSANDS = r"\d{1,3}(?:[,'’_ \u00a0\u2009\u202f]\d{3})+(?![\d])(?:\.\d+)?"
_PLAIN = r"(?:\d+(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<about>[~≈∼]|ca\.? |about )?\s*(?P<money>US\$|[$€£])?\s*(?P<factor>[x×]\s?)?"
    rf"(?P<number>[+\-−]?(?:{_THOUSANDS}|{_PLAIN})(?:e[+-]?\d{{1,6}})?|[+-]?inf(?:inity)?)"
    r"(?:\s*(?P<prefix>[kKMBGT])(?![a-zA-Z/]))?\s*(?P<unit>[a-zA-Zµμ%×$/][\w/%µμ$·]*(?:\s?/\s?\w+)?)?"
    r"\s*(?:(?:±|\+/-|\+-|±)\s*(?P<error>[\d.,]+(?:e[+-]?\d+)?|∞)\s*\S{0,8})?\s*(?:\(.{0,60}\)|\[.{0,60}\])?\s*[*†‡]*",
    re.IGNORECASE | re.ASCII,
)
_EDGE = re.compile(r"[x×]\d", re.IGNORECASE)  # 4096x4096 is not a number with the unit x4096
_PREFIXES = {"k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_LASTING = re.compile(
    r"(?:(?P<d>\d+)\s?d(?:ays?)?)?\s*(?:(?P<h>\d+)\s?h(?:rs?|ours?)?)?\s*(?:(?P<m>\d+)\s?m(?:ins?|inutes?)?)?"
    r"\s*(?:(?P<s>\d+(?:\.\d+)?)\s?s(?:ecs?|econds?)?)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?:(?P<h>\d{1,4}):)?(?P<m>\d{1,2}):(?P<s>\d{2}(?:\.\d+)?)")
_COMMA = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+|\d+),(\d+)(?![\d,.])")


@dataclass(frozen=True, slots=True)
class NumberText:
    """A cell with a number.

    Attributes:
        unit: text after it, in small letters; `x` for a factor.
        rough: marked as rounded further than its digits.
        least: value of its last digit: `2h 15m` is exact to 60 seconds.
    """

    text: str
    number: Decimal
    unit: str = ""
    rough: bool = False
    least: float = 0.0


def readings(cells: Sequence[str], lasting: bool = False) -> list[NumberText | None]:
    """Return None without a number. `lasting` allows `2h 15m` and `1:30`."""
    commas = decimal_commas(cells)
    return [reading(cell, commas, lasting) for cell in cells]


def reading(cell: str, commas: bool = False, lasting: bool = False) -> NumberText | None:
    """Read a comma as a decimal point with `commas`."""
    bare = cell.strip()
    if lasting and (spent := _lasting(bare)):
        return spent
    if commas:
        bare = _COMMA.sub(lambda match: f"{match[1].replace('.', '')}.{match[2]}", bare)
    match = _NUMBER.fullmatch(bare)
    if match is None or _EDGE.match(match["unit"] or ""):
        return None
    digits = re.sub(r"[,'’_ \u00a0\u2009\u202f]", "", match["number"]).replace("−", "-")
    try:
        number = Decimal(digits)
    except InvalidOperation:  # a decimal can't hold the exponent
        return None
    if number.is_finite() and number and abs(number.adjusted()) > MOST_EXPONENT:
        return None
    if prefix := match["prefix"]:
        number *= _PREFIXES[prefix.lower()]
    unit = (match["unit"] or "").replace(" ", "").lower()
    unit = f"${unit if unit.startswith('/') else ''}" if match["money"] else "x" if match["factor"] else unit
    return NumberText(cell, number, unit, rough=bool(match["about"]))


def decimal_commas(cells: Sequence[str]) -> bool:
    """Return whether they must be, as no cell has a point."""
    matches = [match for cell in cells for match in _COMMA.finditer(cell)]
    decimal = [m for m in matches if len(m[2]) != 3 or m[1] == "0" or "." in m[1] or len(m[1]) > 3]
    points = any(re.search(r"\d\.\d", _COMMA.sub("", cell)) for cell in cells)
    return bool(decimal) and not points


def printed(values: Sequence[NumberText | None], factors: Sequence[float]) -> tuple[Printed | None, ...]:
    """Return numbers times factors, with the value of the last digit.

    A column without closing zeros (0.5 and 0.01) was rounded to places or digits: the coarser counts, but
    nothing coarser than the printed number.
    """
    finite = [value.number for value in values if value and value.number.is_finite()]
    places = max(map(_places, finite), default=0)
    digits = max((len(number.as_tuple().digits) for number in finite), default=1)
    kept = any(_places(number) > 0 and number.as_tuple().digits[-1] == 0 for number in finite)
    made: list[Printed | None] = []
    for value, factor in zip(values, factors, strict=True):
        if value is None:
            made.append(None)
            continue
        number = value.number
        exponent = -_places(number)
        if not kept and number.is_finite():
            exponent = min(exponent, max(-places, number.adjusted() - digits + 1))
        step = max(10.0**exponent * factor, value.least * factor)
        if value.rough and number.is_finite():
            step = max(step, 2 * ABOUT * abs(float(number)) * factor)
        made.append(Printed(value.text, float(number) * factor, step))
    return tuple(made)


def digits_of(value: Printed) -> int:
    """Count significant digits."""
    match = re.search(r"\d[\d.,:]*", value.text)
    return len(re.sub(r"\D", "", match[0]).lstrip("0")) if match else 0


def _places(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _lasting(cell: str) -> NumberText | None:
    match = _CLOCK.fullmatch(cell) or (_LASTING.fullmatch(cell) if re.search(r"\d\s?[dhm]", cell) else None)
    parts = {name: part for name, part in match.groupdict().items() if part} if match else {}
    if len(parts) < 2:
        return None
    worth = {"d": 24 * 3600, "h": 3600, "m": 60, "s": 1}
    total = sum((Decimal(part) * worth[name] for name, part in parts.items()), Decimal(0))
    least = worth[min(parts, key=lambda name: worth[name])]
    return NumberText(cell, total, "s", least=least if least > 1 else 0.0)
