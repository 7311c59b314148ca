"""Meanings of columns, read from their headers and units."""

import re
from dataclasses import replace

from tasks.published.sizes import size_name, word_set
from tasks.published.table import ColumnKind, PublishedColumn

SIZES = word_set(
    "n m k size pixels batch width height length seq_len sequence_length hidden samples images items tokens "
    "examples elements bytes resolution requests concurrency concurrent_client_requests concurrent_requests "
    "client_batch global_batch local_batch"
)
TIMES = word_set("time times latency latencies duration runtime elapsed walltime timing")
RATES = word_set("throughput bandwidth speed performance fps qps rps tps iops")
SPREADS = word_set(
    "std stdev stddev sd err error stderr ci iqr deviation variance ± σ rsd cv ratiosd outliers jitter "
    "confidence tolerance allocated gen0 gen1 gen2"
)
RATIOS = word_set("speedup speedups acceleration relative ratio faster slower slowdown normalized relspeed")
CHANGES = word_set(
    "change delta diff difference improvement gain overhead reduction increase decrease saving savings saved "
    "regression δ ∆"
)
SHARES = word_set("utilization utilisation util mfu hfu usage occupancy roofline peak")
DEVICES = word_set(
    "gpus devices ranks processes procs workers threads cores cpus vcpus machines hosts instances "
    "accelerators tpus cards chips"
)
SINGULAR = word_set("gpu device node machine thread core process worker rank cpu")
STATISTICS = {
    **dict.fromkeys(("min", "minimum", "best", "fastest"), "min"),
    **dict.fromkeys(("max", "maximum", "worst", "slowest"), "max"),
    **dict.fromkeys(("mean", "avg", "average"), "mean"),
    **dict.fromkeys(("median", "p50"), "p50"),
}
FILLERS = word_set("in per of the a to and with for vs over on at from than by")

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
# Words that are a rate, and the things that they count.
RATE_WORDS = {
    "fps": "frames",
    "qps": "queries",
    "rps": "requests",
    "tps": "tokens",
    "ips": "items",
    "ops": "operations",
    "iops": "operations",
}
_PERCENTILE = re.compile(
    r"(?<![\w.])(?:p\s?(\d{2}(?:\.\d)?)|(\d{2}(?:\.\d+)?)\s?(?:%|th))(?![\w.])", re.IGNORECASE
)
_COUNT = re.compile(r"^(?:#|num(?:ber)?[ _]+(?:of)?|no\.?(?: of)? |n[ _])\s*_?(\w+)$|^(\w+)\s*(?:count|#)$")
_BRACKETS = re.compile(r"[(\[{]\s*([^()\[\]{}]{1,40}?)\s*[)\]}]")
_SLASH = re.compile(r"[a-zµμ$]+\s?/\s?[a-z0-9]+|[a-z]+ per s(?:ec(?:ond)?s?)?\b")
_AMBIGUOUS = re.compile(r"\b[MGTP]?FLOPs\b|\b[MGTP]FLOP\b")  # of a model, as a rule


def heading(header: str) -> PublishedColumn:
    """Read the meaning of a column from its header alone."""
    column = PublishedColumn(header, statistic=statistic(header), subject=subject(header))
    for read in (_spread, _devices, _money, _ratio, _rate, _time, _size):
        if found := read(header, column):
            return found
    return column


def words_of(header: str) -> set[str]:
    """Return the words of a header, in small letters."""
    return set(re.findall(r"[a-zµμδ∆σ±]+\d*", header.lower()))


def statistic(header: str) -> str:
    """Return the statistic that a header names: `min`, `p99`, `mean` …; empty if none."""
    if match := _PERCENTILE.search(header):
        return f"p{match[1] or match[2]}"
    words = re.findall(r"[a-z]+\d*", header.lower())
    return next((STATISTICS[word] for word in words if word in STATISTICS), "")


def subject(header: str) -> frozenset[str]:
    """Return the words of a header that name a machine, library or phase."""
    meaning = TIMES | RATES | RATIOS | CHANGES | FILLERS | SPREADS | {*STATISTICS, *SECONDS, "up", "sec", "x"}
    plain = _PERCENTILE.sub(" ", _BRACKETS.sub(_kept, header)).lower()
    words = set(re.findall(r"[a-z]+[a-z0-9.+]*|\d+[a-z]\w*", plain))
    return frozenset(word for word in words - meaning if not (rate_of(word) or seconds_of(word)))


def units_in(header: str) -> list[str]:
    """List the words of a header that can be units: in brackets, with a slash, the last one."""
    plain = header.lower()
    units = [re.sub(r"\s", "", text) for text in _BRACKETS.findall(plain)]
    units += [part for text in _BRACKETS.findall(plain) for part in re.split(r"[\s,;]+", text)]
    units += [re.sub(r"\s?per\s", "/", text).replace(" ", "") for text in _SLASH.findall(plain)]
    last = re.findall(r"(-?)([a-zµμ]+)", _BRACKETS.sub(" ", plain).replace("_", " "))[-1:]
    units += [word for hyphen, word in last if not (hyphen and len(word) == 1)]  # YOLOv5-s has no seconds
    units += re.findall(r"\bin ([a-zµμ]+(?:/[a-z]+)?)$", plain)
    return units


def with_unit(column: PublishedColumn, unit: str) -> PublishedColumn | None:
    """Return a column of unknown kind or scale with the unit of its cells; None if that adds nothing."""
    if _spread(column.header, column):
        return None
    if column.kind is ColumnKind.OTHER and (unit in DEVICES | SINGULAR or unit == "nodes"):
        return replace(column, kind=ColumnKind.DEVICES, unit=unit)
    if rate := rate_of(unit):
        if column.kind in (ColumnKind.RATE, ColumnKind.OTHER):
            return replace(column, kind=ColumnKind.RATE, scale=rate[0], unit=rate[1], sure=True)
    elif (spent := seconds_of(unit)) and column.kind in (ColumnKind.TIME, ColumnKind.OTHER):
        return replace(column, kind=ColumnKind.TIME, scale=spent[0], unit=unit, each=spent[1], sure=True)
    return None


def _kept(match: re.Match[str]) -> str:
    """Return brackets without a unit: `CPU Time (s)` loses its, `Time (CPU)` keeps its words."""
    unit = re.sub(r"\s", "", match[1].lower())
    return " " if rate_of(unit) or seconds_of(unit) else f" {match[1]} "


def _spread(header: str, column: PublishedColumn) -> PublishedColumn | None:
    return column if words_of(header) & SPREADS or "±" in header else None


def _devices(header: str, column: PublishedColumn) -> PublishedColumn | None:
    plain = header.lower().strip()
    match = _COUNT.match(plain.replace("-", " "))
    word = (match[1] or match[2]) if match else plain
    if word in DEVICES or (match and word in SINGULAR) or plain in ("nodes", "world size", "gpu count"):
        return replace(column, kind=ColumnKind.DEVICES, unit=word)
    return None


def _money(header: str, column: PublishedColumn) -> PublishedColumn | None:
    plain = header.lower()
    if not re.search(r"\$|usd|€|eur\b|price|cost", plain):
        return None
    each = re.search(r"(?:/|per)\s?(?!h(?:r|our)?\b)\w|token|image|total|epoch|month|run\b", plain)
    hourly = re.search(r"hour|/\s?h(?:r)?\b|on.demand|spot|price", plain) and not each
    return replace(column, kind=ColumnKind.PRICE if hourly else ColumnKind.COST)


def _ratio(header: str, column: PublishedColumn) -> PublishedColumn | None:
    plain, words = header.lower(), words_of(header)
    percent = "%" in _PERCENTILE.sub("", header) or "percent" in words
    if "efficiency" in words:
        return replace(column, kind=ColumnKind.EFFICIENCY, percent=percent)
    if words & SHARES and percent and not words & CHANGES:
        return replace(column, kind=ColumnKind.SHARE, percent=True)
    if words & CHANGES:
        return replace(column, kind=ColumnKind.RATIO, percent=percent, change=True)
    if words & RATIOS or {"speed", "up"} <= words or re.match(r"(vs\.?|scaling|.* scaling)\b", plain):
        return replace(column, kind=ColumnKind.RATIO, percent=percent)
    return None


def _rate(header: str, column: PublishedColumn) -> PublishedColumn | None:
    if _AMBIGUOUS.search(header) and not re.search(r"FLOPs?\s?(/|per)\s?s", header):
        scale, unit = _counted("gflop") if "GFLOP" in header else (1.0, "flops")
        amount = re.fullmatch(r"\s*[MGTP]?FLOP\s*", header)
        return replace(column, kind=ColumnKind.SIZE, unit=unit, scale=scale) if amount else column
    for unit in units_in(header):
        if unit in SECONDS and unit != "s":
            continue
        if rate := rate_of(unit):
            return replace(column, kind=ColumnKind.RATE, scale=rate[0], unit=rate[1], sure=True)
    if words_of(header) & RATES and not words_of(header) & TIMES:
        return replace(column, kind=ColumnKind.RATE)
    return None


def _time(header: str, column: PublishedColumn) -> PublishedColumn | None:
    plain, words = header.lower(), words_of(header)
    of_one = re.search(r"/\s?(it|iter|step|img|image|im|op|epoch|batch|sample|token)\w*", plain)
    each = "per" in words or bool(of_one)
    bare = not (words & TIMES)
    units = sorted(units_in(header), key=lambda unit: unit in ("min", "mins"))  # with another unit, a minimum
    for unit in units:
        found = seconds_of(unit)
        if found and not (bare and unit in ("min", "mins", "h", "day", "days") and f"({unit})" not in plain):
            timed = replace(column, kind=ColumnKind.TIME, unit=unit.partition("/")[0], sure=True)
            return replace(timed, scale=found[0], each=each or found[1])
    if re.match(r"(milli|micro|nano)?seconds?\b|hours\b|minutes\b", plain):
        unit = re.split(r"\W", plain)[0]
        return replace(column, kind=ColumnKind.TIME, scale=SECONDS[unit], unit=unit, each=True, sure=True)
    other = r"\btimes?\b.*(faster|slower)|time.?stamp|(first|real).?time|offset|zone|date"
    if not bare and not re.search(other, plain):
        return replace(column, kind=ColumnKind.TIME, each=each)
    return None


def _size(header: str, column: PublishedColumn) -> PublishedColumn | None:
    plain = re.sub(r"\s*(?:/|per)\s*(gpu|device|rank|node)s?\b", "", header.lower())
    name = size_name(re.sub(r"[(\[].*", "", plain).strip())
    if name not in SIZES:
        return None
    return replace(column, kind=ColumnKind.SIZE, unit=name, each=plain != header.lower())


def _counted(unit: str) -> tuple[float, str]:
    """Return the number of things in a unit and their name, such as 1e9 `flops` for `gflop`."""
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
    """Return the scale and the thing that a unit counts per second; None if it is not a rate."""
    if unit in RATE_WORDS:
        return 1.0, RATE_WORDS[unit]
    if unit in ("gflops", "tflops", "pflops", "mflops") or unit.endswith("bps"):
        return _counted(unit)
    match = _PER_SECOND.fullmatch(unit)
    return _counted(match["what"]) if match else None


def seconds_of(unit: str) -> tuple[float, bool] | None:
    """Return the seconds in a unit of time, and whether it is the time of one item, such as `ns/op`."""
    if unit in SECONDS:
        return SECONDS[unit], False
    match = _EACH.fullmatch(unit)
    if match and match["unit"] in SECONDS and match["what"] not in SECONDS:
        return SECONDS[match["unit"]], True
    return None
