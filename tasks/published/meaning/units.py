"""Units of times, rates and amounts."""

import re

SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("day", "days"), 86400.0),
}
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_COUNTED = re.compile(r"(?P<prefix>[kmgtp]?)(?P<what>flops?|b|bytes?|bps|bits?)")
_PER_SECOND = re.compile(r"(?P<what>[a-zµμ]*)\s?(?:/|per|_per_)\s?s(?:ec(?:onds?)?)?")
_EACH = re.compile(r"(?P<unit>[a-zµμ]+)\s?/\s?(?P<what>[a-z]+)")
# Words that are a rate by themselves, and what they count.
RATES = {
    "fps": "frames",
    "qps": "queries",
    "rps": "requests",
    "tps": "tokens",
    "ips": "items",
    "ops": "operations",
    "iops": "operations",
}


def counted(unit: str) -> tuple[float, str]:
    """Return the number of things in a unit, and their name: `gflop` is 1e9 `flops`."""
    if unit[:2] in _BINARY and unit[2:] in ("b", "bytes"):
        return _BINARY[unit[:2]], "bytes"
    match = _COUNTED.fullmatch(unit)
    if match is None:
        return 1.0, unit
    what = match["what"]
    if what in ("bps", "bit", "bits"):
        return _PREFIXES[match["prefix"]] / 8, "bytes"
    return _PREFIXES[match["prefix"]], "flops" if what.startswith("flop") else "bytes"


def rate_of(unit: str) -> tuple[float, str] | None:
    """Return the scale and the thing that a unit counts a second; None if it is no rate."""
    if unit in RATES:
        return 1.0, RATES[unit]
    if unit in ("gflops", "tflops", "pflops", "mflops") or unit.endswith("bps"):
        return counted(unit)
    match = _PER_SECOND.fullmatch(unit)
    return counted(match["what"]) if match else None


def seconds_of(unit: str) -> tuple[float, bool] | None:
    """Return the seconds in a unit of time, and whether it is a time of each of several, as `ns/op` is."""
    if unit in SECONDS:
        return SECONDS[unit], False
    match = _EACH.fullmatch(unit)
    if match and match["unit"] in SECONDS and match["what"] not in SECONDS:
        return SECONDS[match["unit"]], True
    return None
