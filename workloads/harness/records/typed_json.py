"""Parsed JSON to frozen dataclasses, with every name and type checked."""

import math
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, TypeVar

from workloads.harness.records.errors import RecordError

MOST_INT = 2**63 - 1  # the largest that a table can hold
T = TypeVar("T")


def finite(text: str) -> float:
    """Parse a JSON number; NaN, Infinity and 1e999 raise ValueError."""
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(f"{text} is not a finite number")


def build(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """Make a dataclass from parsed JSON, or raise RecordError for a missing, unknown or mistyped field."""
    if not isinstance(raw, Mapping):
        raise RecordError(f"field {where} is {raw!r}, expected an object")
    hints = typing.get_type_hints(kind)
    unknown = sorted(raw.keys() - hints.keys())
    if unknown:
        raise RecordError(f"{where} has the unknown field {unknown[0]!r}")
    values = {name: _convert(hints[name], value, f"{where}.{name}") for name, value in raw.items()}
    try:
        return kind(**values)
    except TypeError:
        missing = sorted({f.name for f in fields(kind)} - values.keys())  # type: ignore[arg-type]
        raise RecordError(f"{where} lacks one of the fields {', '.join(missing)}") from None


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or (value is None and types.NoneType in args):
        return value
    if origin in (types.UnionType, typing.Union):
        return _convert(next(a for a in args if a is not types.NoneType), value, where)
    if origin is tuple and isinstance(value, list):
        inner = args if args[-1] is not Ellipsis else (args[0],) * len(value)
        if len(inner) == len(value):
            return tuple(
                _convert(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(inner, value, strict=True))
            )
    elif origin is dict and isinstance(value, dict):
        return {key: _convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    elif is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where)
    elif isinstance(hint, type) and issubclass(hint, StrEnum) and value in list(hint):
        return hint(value)
    elif hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    elif (hint is int and type(value) is int and -MOST_INT - 1 <= value <= MOST_INT) or (
        hint in (str, bool) and type(value) is hint
    ):
        return value
    raise RecordError(f"field {where} is {str(value)[:60]!r}, expected {getattr(hint, '__name__', hint)}")
