"""JSON for files and pages: a number that isn't finite is null, because JSON has no other word for it."""

import json
import math
from typing import Any


def to_json(value: Any, **options: Any) -> str:
    """Dump as `json.dumps` does, and only where that meets a NaN or an infinity replace those by null."""
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(finite(value), allow_nan=False, **options)


def finite(value: Any) -> Any:
    """The value with null for every number in it that isn't finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
