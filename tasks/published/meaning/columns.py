"""Meanings of columns, read from their headers."""

import re
from dataclasses import replace

from tasks.published.meaning.units import SECONDS, counted, rate_of, seconds_of
from tasks.published.sizes import size_name
from tasks.published.table import ColumnKind, PublishedColumn


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SIZES = _words(
    "n m k size pixels batch width height length seq_len sequence_length hidden samples images items tokens "
    "examples elements bytes resolution requests concurrency concurrent_client_requests concurrent_requests "
    "client_batch global_batch local_batch"
)
TIMES = _words("time times latency latencies duration runtime elapsed walltime timing")
RATES = _words("throughput bandwidth speed performance fps qps rps tps iops")
SPREADS = _words(
    "std stdev stddev sd err error stderr ci iqr deviation variance ± σ rsd cv ratiosd outliers jitter "
    "confidence tolerance allocated gen0 gen1 gen2"
)
RATIOS = _words("speedup speedups acceleration relative ratio faster slower slowdown normalized relspeed")
CHANGES = _words(
    "change delta diff difference improvement gain overhead reduction increase decrease saving savings saved "
    "regression δ ∆"
)
SHARES = _words("utilization utilisation util mfu hfu usage occupancy roofline peak")
DEVICES = _words(
    "gpus devices ranks processes procs workers threads cores cpus vcpus machines hosts instances "
    "accelerators tpus cards chips"
)
SINGULAR = _words("gpu device node machine thread core process worker rank cpu")
STATISTICS = {
    **dict.fromkeys(("min", "minimum", "best", "fastest"), "min"),
    **dict.fromkeys(("max", "maximum", "worst", "slowest"), "max"),
    **dict.fromkeys(("mean", "avg", "average"), "mean"),
    **dict.fromkeys(("median", "p50"), "p50"),
}
FILLERS = _words("in per of the a to and with for vs over on at from than by")


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
    """Return which statistic of a sample a header names: `min`, `p99`, `mean` …; empty if none."""
    if match := _PERCENTILE.search(header):
        return f"p{match[1] or match[2]}"
    return next(
        (STATISTICS[word] for word in re.findall(r"[a-z]+\d*", header.lower()) if word in STATISTICS), ""
    )


def subject(header: str) -> frozenset[str]:
    """Return the words that say of which machine, library or phase a column is."""
    meaning = (
        TIMES | RATES | RATIOS | CHANGES | {*STATISTICS, *SECONDS} | FILLERS | SPREADS | {"up", "sec", "x"}
    )
    words = set(
        re.findall(
            r"[a-z]+[a-z0-9.+]*|\d+[a-z]\w*", _PERCENTILE.sub(" ", _BRACKETS.sub(_kept, header)).lower()
        )
    )
    return frozenset(word for word in words - meaning if not (rate_of(word) or seconds_of(word)))


def units_in(header: str) -> list[str]:
    """List what may be units in a header: in brackets, with a slash, its last word."""
    plain = header.lower()
    units = [re.sub(r"\s", "", text) for text in _BRACKETS.findall(plain)]
    units += [part for text in _BRACKETS.findall(plain) for part in re.split(r"[\s,;]+", text)]
    units += [re.sub(r"\s?per\s", "/", text).replace(" ", "") for text in _SLASH.findall(plain)]
    last = re.findall(r"(-?)([a-zµμ]+)", _BRACKETS.sub(" ", plain).replace("_", " "))[-1:]
    units += [word for hyphen, word in last if not (hyphen and len(word) == 1)]  # YOLOv5-s has no seconds
    units += re.findall(r"\bin ([a-zµμ]+(?:/[a-z]+)?)$", plain)
    return units


def with_unit(column: PublishedColumn, unit: str) -> PublishedColumn | None:
    """Return a column of unknown kind or scale with the unit of its cells; None where that says nothing."""
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
    """Keep in brackets what is no unit: `CPU Time (s)` loses it, `Time (CPU)` keeps it."""
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
        scale, unit = counted("gflop") if "GFLOP" in header else (1.0, "flops")
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
    each = "per" in words or bool(
        re.search(r"/\s?(it|iter|step|img|image|im|op|epoch|batch|sample|token)\w*", plain)
    )
    bare = not (words & TIMES)
    units = sorted(units_in(header), key=lambda unit: unit in ("min", "mins"))  # beside another, a minimum
    for unit in units:
        found = seconds_of(unit)
        if found and not (bare and unit in ("min", "mins", "h", "day", "days") and f"({unit})" not in plain):
            return replace(
                column,
                kind=ColumnKind.TIME,
                scale=found[0],
                unit=unit.partition("/")[0],
                each=each or found[1],
                sure=True,
            )
    if re.match(r"(milli|micro|nano)?seconds?\b|hours\b|minutes\b", plain):
        unit = re.split(r"\W", plain)[0]
        return replace(column, kind=ColumnKind.TIME, scale=SECONDS[unit], unit=unit, each=True, sure=True)
    if not bare and not re.search(
        r"\btimes?\b.*(faster|slower)|time.?stamp|(first|real).?time|offset|zone|date", plain
    ):
        return replace(column, kind=ColumnKind.TIME, each=each)
    return None


def _size(header: str, column: PublishedColumn) -> PublishedColumn | None:
    plain = re.sub(r"\s*(?:/|per)\s*(gpu|device|rank|node)s?\b", "", header.lower())
    name = size_name(re.sub(r"[(\[].*", "", plain).strip())
    return (
        replace(column, kind=ColumnKind.SIZE, unit=name, each=plain != header.lower())
        if name in SIZES
        else None
    )
