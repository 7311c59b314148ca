"""The cost of a machine's time; light to import."""

from typing import overload

SECONDS_PER_HOUR = 3600


@overload
def usd(seconds: float, usd_per_hour: float) -> float: ...
@overload
def usd(seconds: float, usd_per_hour: float | None) -> float | None: ...
def usd(seconds: float, usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else seconds * usd_per_hour / SECONDS_PER_HOUR


def affordable_s(left_usd: float, usd_per_hour: float) -> float:
    """Return the machine time that the money buys, at least 0."""
    return max(left_usd, 0.0) / usd_per_hour * SECONDS_PER_HOUR
