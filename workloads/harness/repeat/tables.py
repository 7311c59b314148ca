"""Tables of a suite's file: their keys and allowed values."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from workloads.harness.records.case import DEVICES
from workloads.harness.records.errors import WorkloadsError

# The most that a number of a file can be, by its key: far above any sensible value, so that a typing error is named.
LONGEST_S = 14 * 86_400
MOST = {
    **dict.fromkeys(("timeout_s", "estimate_s", "soak_s"), LONGEST_S),
    **{"minutes": LONGEST_S / 60, "repeats": 10_000, "threads": 10_000, "processes": 10_000},
}
MOST_OF_ANY = 10**15


def check_keys(raw: Any, allowed: Mapping[str, type], where: str) -> None:
    """Refuse a table with other keys than `allowed`, or values of other types, not above 0, or above `MOST`."""
    if not isinstance(raw, dict):
        raise WorkloadsError(f"{where} is {raw!r}, expected a table with {', '.join(allowed)}")
    for key, value in raw.items():
        if key not in allowed:
            near = get_close_matches(key, [*allowed], n=1)
            advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(allowed)}"
            raise WorkloadsError(f"{where} has the unknown key {key!r}; {advice}")
        kind = allowed[key]
        if kind in (int, float):
            fits = isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
            if fits and not 0 < value < math.inf:
                raise WorkloadsError(f"{key}={value} must be above 0 and finite")
            if fits and value > (most := MOST.get(key, MOST_OF_ANY)):
                raise WorkloadsError(f"{key}={value} must be at most {most:g}")
        else:
            fits = isinstance(value, kind)
        if not fits:
            raise WorkloadsError(f"{key} is {value!r}, expected {kind.__name__}")


def choices_of(size: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(v) if isinstance(v, list) else (v,) for name, v in size.items()}


def device_of(entry: Mapping[str, Any]) -> str | None:
    device: str | None = entry.get("device")
    if device is not None and device not in DEVICES:
        raise WorkloadsError(f"device is {device!r}; choose from {', '.join(DEVICES)}")
    return device
