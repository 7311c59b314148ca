"""The meanings of columns by headers, then cells."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from tasks.published.sizes import LENGTHS, size_name, word_set
from tasks.published.table import ColumnKind, PublishedColumn
from tasks.published.units import Unit, unit_of

SIZES = word_set(
    "n m k size pixels batch width height length seq_len sequence_length hidden samples images items tokens "
    "examples elements bytes resolution requests concurrency concurrent_client_requests concurrent_requests "
    "client_batch global_batch local_batch"
)
TIMES = word_set("time times latency latencies duration runtime elapsed walltime timing")
RATES = word_set("throughput bandwidth speed performance")
PHASES = word_set("ttft tpot itl e2el")
SPREADS = word_set(
    "std stdev stddev sd err error stderr ci iqr deviation variance ± σ rsd cv ratiosd outliers jitter "
    "confidence tolerance allocated gen0 gen1 gen2"
)
CHANGES = word_set(
    "change delta diff difference improvement gain overhead reduction increase decrease saving savings saved "
    "regression δ ∆"
)
RATIOS = word_set(
    "speedup speedups acceleration relative rel ratio faster slower slowdown normalized relspeed"
)
SHARES = word_set("utilization utilisation util usage occupancy roofline peak")
OF_STEPS = word_set("mfu hfu")
DEVICES = word_set(
    "gpus devices ranks processes procs workers threads cores cpus vcpus machines hosts instances nodes "
    "accelerators tpus cards chips"
)
SINGULAR = word_set("gpu device node machine thread core process worker rank cpu")
PARALLEL = word_set("tp tensor_parallel world num_gpu num_gpus gpu_count n_gpu n_gpus")
STATISTICS = {
    **dict.fromkeys(("min", "minimum", "best", "fastest"), "min"),
    **dict.fromkeys(("max", "maximum", "worst", "slowest"), "max"),
    **dict.fromkeys(("mean", "avg", "average"), "mean"),
    **dict.fromkeys(("median", "p50"), "p50"),
}
FILLERS = word_set("in per of the a to and with for vs over on at from than by")
_NO_TIME = re.compile(
    r"\btimes?\b.*(faster|slower)|time.?stamp|(first|real).?time|offset|zone|date|\b(the|an?)\b.*\btimes?\b"
)
_FIXED = re.compile(r"epoch|\b(time|hours|minutes|seconds) (to|for) |/ ?\d|convergence|\btotal train")
_PERCENTILE = re.compile(
    r"(?<![\w.])(?:p\s?(\d{2}(?:\.\d)?)|(\d{2}(?:\.\d+)?)\s?(?:%|th))(?![\w.])", re.IGNORECASE
)
_NUMBERED = re.compile(r"(?:#|num(?:ber)? (?:of )?|no\.?(?: of)? |n )\s*(\w+)|(\w+) ?(?:count|#)")
_BRACKETS = re.compile(r"[(\[{]\s*([^()\[\]{}]{1,40}?)\s*[)\]}]")
_REMARK = re.compile(
    r"(?:US\$|[$€£])\s?\d[\d.,]*\s*[kKmM]?(?:\s?(?:/|per)\s?\w+)?|\b\d[\d.,]*\s?(?:USD|EUR)\b(?:\s?/\s?\w+)?"
)
_WORD = r"[a-zµμ$€]+"
_SLASH = re.compile(
    rf"(?:gpu-)?{_WORD}\s?(?:/\s?(?:\d*\s?(?:[kmb]|thousand|million|billion)?\s)?[a-z-]+){{1,2}}"
)
_COUNTED = re.compile(
    r"(?:total|num|successful|generated|completed|input|output|prompt|_)*_(?:requests|tokens)|\w+_seq_?len(?:gth)?"
)
_AMBIGUOUS = re.compile(r"\b[MGTP]?FLOPs\b|\b[MGTP]FLOP\b|\b(?:num|total|n)_flops\b")  # usually of a model
_PRECISE = re.compile(r"\b(fp|bf|tf|int)\d+|tensor|peak|dense")
_CAMEL = re.compile(r"(?<=[a-z]{2})(?=[A-Z][a-z]|[A-Z]\b)")


class _Header(NamedTuple):
    text: str
    plain: str
    words: frozenset[str]
    units: tuple[Unit, ...]
    bracketed: int


def heading(header: str) -> PublishedColumn:
    """Read a column by its header alone."""
    read = _read(header)
    column = PublishedColumn(
        header, statistic=statistic(header), subject=subject(header), shared=_is_shared(read)
    )
    for kind in (_spread, _devices, _money, _ratio, _measure, _size):
        if meaning := kind(read, column):
            return meaning
    return column


def plain(header: str) -> str:
    """Return small letters, with `/` for `per`, without prices as remarks."""
    apart = _CAMEL.sub(" ", _REMARK.sub(" ", header)).replace("_", " ")
    apart = re.sub(r"(?<=[a-zA-Z])-(?=[a-zA-Z]{2})(?!h(?:ou)?rs?\b)", " ", apart).lower()
    apart = re.sub(r"\bper(?=\d)", "per ", apart)
    return re.sub(r"(?<=[\w)])\s?\bper\s(?=\w)", "/", " ".join(apart.split()))


def words_of(header: str) -> set[str]:
    """Return words in small letters."""
    return set(re.findall(r"[a-zµμδ∆σ±]+\d*", header.lower().replace("_", " ")))


def statistic(header: str) -> str:
    """Return `min`, `p99`, `mean` …; else empty."""
    spaced = header.replace("_", " ")
    if match := _PERCENTILE.search(spaced):
        return f"p{match[1] or match[2]}"
    words = re.findall(r"[a-z]+\d*", spaced.lower())
    return next((STATISTICS[word] for word in words if word in STATISTICS), "")


def subject(header: str) -> frozenset[str]:
    """Return words for a machine, library or phase."""
    meaning = TIMES | RATES | RATIOS | CHANGES | FILLERS | SPREADS | {*STATISTICS, "up", "sec", "x", "t", "s"}
    text = _PERCENTILE.sub(" ", _BRACKETS.sub(_kept, plain(header)))
    words = set(re.findall(r"[a-z]+[a-z0-9.+]*|\d+[a-z]\w*", text))
    return frozenset(word for word in words - meaning if not _is_unit(word))


def with_unit(column: PublishedColumn, text: str, sure: bool = True) -> PublishedColumn | None:
    """Return it with its cells' unit; None if that adds nothing."""
    if _spread(_read(column.header), column):
        return None
    if column.kind is ColumnKind.OTHER and (text in DEVICES | SINGULAR):
        return replace(column, kind=ColumnKind.DEVICES, unit=text)
    unit = unit_of(text)
    money = (ColumnKind.PRICE, ColumnKind.COST)
    if unit is None or unit.kind not in (ColumnKind.TIME, ColumnKind.RATE, *money):
        return None
    fits = (column.kind in money and unit.kind is ColumnKind.PRICE) or column.kind in (
        unit.kind,
        ColumnKind.OTHER,
    )
    return _of_unit(replace(column, sure=sure), unit) if fits else None


def _read(header: str) -> _Header:
    text = plain(header)
    inside = _BRACKETS.findall(text)
    bare = _BRACKETS.sub(" ", text)
    bracketed = [*inside, *(part for each in inside for part in re.split(r"[\s,;:]+", each))]
    last = re.findall(r"(-?)([a-zµμ$]+(?:/[a-z]+)*)", bare)[-1:]
    loose = [*_SLASH.findall(bare), *re.findall(rf"\bin ({_WORD}(?:/[a-z]+)?)$", bare)]
    loose += [word for hyphen, word in last if not (hyphen and len(word) == 1)]  # YOLOv5-s has no seconds
    loose += [word for word in bare.split() if word.endswith(("flops", "ps"))]
    # A letter can end a name, such as `L40S` or `3090s`.
    loose = [word for word in loose if not re.search(rf"\d{re.escape(word)}\b", text)]
    sure = [unit for word in bracketed if (unit := unit_of(word))]
    units = sure + [unit for word in loose if (unit := unit_of(word))]
    return _Header(header, text, frozenset(words_of(text)), tuple(units), len(sure))


def _is_unit(word: str) -> bool:
    unit = unit_of(word)
    return unit is not None and (unit.kind in (ColumnKind.TIME, ColumnKind.RATE) and not unit.each)


def _kept(match: re.Match[str]) -> str:
    """Remove units in brackets: `CPU Time (s)` loses its, `Time (CPU)` keeps its words."""
    return " " if unit_of(match[1]) else f" {match[1]} "


def _is_shared(read: _Header) -> bool:
    return any(unit.shared for unit in read.units) or bool(
        re.search(
            r"(?:/|each|avg|average) ?(gpu|device|node|core|thread|rank|accelerator|chip|card|instance)\b",
            read.plain,
        )
    )


def _spread(read: _Header, column: PublishedColumn) -> PublishedColumn | None:
    return column if read.words & SPREADS or re.search(r"±|\+/-", read.text) else None


def _devices(read: _Header, column: PublishedColumn) -> PublishedColumn | None:
    match = _NUMBERED.fullmatch(read.plain)
    word = (match[1] or match[2]) if match else read.plain
    named = size_name(read.plain)
    if word in DEVICES or (match and word in SINGULAR) or named in PARALLEL:
        return replace(column, kind=ColumnKind.DEVICES, unit=named if named in PARALLEL else word)
    return None


def _money(read: _Header, column: PublishedColumn) -> PublishedColumn | None:
    """Read a price without "hour" in its header as perhaps that of a card to buy."""
    unit = next((unit for unit in read.units if unit.kind in (ColumnKind.PRICE, ColumnKind.COST)), None)
    if unit is None and not re.search(r"\$|\busd\b|€|\beur\b|\bprice|\bcosts?\b|\bpricing\b", read.plain):
        return None
    if unit and (unit.kind is ColumnKind.PRICE or unit.each):
        return _of_unit(replace(column, sure=True), unit)
    of_work = re.search(r"/\s?(\d* ?\w* ?\w+)$", _BRACKETS.sub("", read.plain).strip())
    if of_work and (whole := unit_of(f"usd/{of_work[1]}")) and whole.each:
        return _of_unit(column, whole)
    column = replace(column, kind=ColumnKind.COST, scale=unit.scale if unit else 1.0)
    hourly = re.search(r"hour|/\s?h(?:r)?\b|on.demand|spot", read.plain)
    others = re.search(r"/(?!\s?h(?:r|our)?\b)\w|token|image|total|epoch|month|run\b|efficien", read.plain)
    if (hourly or "price" in read.words) and not others:
        return replace(column, kind=ColumnKind.PRICE, sure=bool(hourly))
    return column


def _ratio(read: _Header, column: PublishedColumn) -> PublishedColumn | None:
    words = read.words
    percent = "%" in _PERCENTILE.sub("", read.text) or "percent" in words
    if words & OF_STEPS or (words & SHARES and percent and not words & CHANGES):
        return replace(column, kind=ColumnKind.SHARE, percent=percent)
    if words & CHANGES:
        return replace(column, kind=ColumnKind.RATIO, percent=percent, change=True)
    if "efficiency" in words:
        return replace(column, kind=ColumnKind.EFFICIENCY, percent=percent)
    if any(unit.kind is ColumnKind.TIME for unit in read.units[: read.bracketed]):
        return None  # `FasterTransformer latency (ms)`
    if words & RATIOS or {"speed", "up"} <= words or re.match(r"(vs\.?|scaling|.* scaling)\b", read.plain):
        return replace(column, kind=ColumnKind.RATIO, percent=percent)
    return None


def _measure(read: _Header, column: PublishedColumn) -> PublishedColumn | None:
    """Decide by a unit in brackets, then by words, then by a loose unit."""
    if _AMBIGUOUS.search(read.text) and not re.search(r"FLOPs?\s?(/|per)\s?s|GPU|device", read.text):
        amount = re.fullmatch(r"\s*[MGTP]?FLOP\s*", read.text)
        if not _PRECISE.search(read.plain):
            unit = unit_of(read.plain.strip()) if amount else None
            return replace(column, kind=ColumnKind.SIZE, unit="flops", scale=unit.scale) if unit else column
    timed, rated = bool(read.words & (TIMES | PHASES)), bool(read.words & RATES)
    measures = [unit for unit in read.units if unit.kind in (ColumnKind.TIME, ColumnKind.RATE)]
    certain = measures[: sum(unit in measures for unit in read.units[: read.bracketed])]
    exact = [unit for unit in certain if unit.what not in ("min", "mins")] or certain  # else a minimum
    for unit in exact or sorted(measures, key=lambda unit: unit.kind is not ColumnKind.RATE):
        if unit.kind is ColumnKind.RATE and unit.what in TIMES:  # `time/s`
            unit = unit._replace(kind=ColumnKind.TIME, what="s")
        vague = unit.what in ("min", "mins", "h", "day", "days", "month", "months") and unit not in certain
        if unit.kind is ColumnKind.TIME and vague and not timed:
            continue
        if unit.kind is ColumnKind.TIME or unit in certain or not timed:
            return _of_unit(replace(column, sure=True), unit, read)
    if rated and not timed:
        return replace(column, kind=ColumnKind.RATE)
    if timed and not _NO_TIME.search(read.plain):
        return _timed(column, read)
    if re.fullmatch(r"(pp|tg) ?\d+", read.plain):  # llama-bench's names of its tests
        return replace(column, kind=ColumnKind.RATE, unit="tokens")
    return None


def _of_unit(column: PublishedColumn, unit: Unit, read: _Header | None = None) -> PublishedColumn:
    made = replace(column, kind=unit.kind, unit=unit.what, scale=unit.scale)
    made = replace(made, each=column.each or unit.each, shared=column.shared or unit.shared)
    return _timed(made, read) if read and unit.kind is ColumnKind.TIME else made


def _timed(column: PublishedColumn, read: _Header) -> PublishedColumn:
    each = re.search(r"/\s?(it|iter|step|img|image|im|op|epoch|batch|sample|token)\w*|\bper\b", read.plain)
    fixed = bool(_FIXED.search(read.plain)) and "step" not in read.words
    return replace(column, kind=ColumnKind.TIME, each=column.each or bool(each), fixed=fixed)


def _size(read: _Header, column: PublishedColumn) -> PublishedColumn | None:
    whole = re.sub(r"\s*/\s*(gpu|device|rank|node)s?\b", "", read.plain)
    name = size_name(
        re.sub(r"[(\[].*|\b(infer|inference|train|training|eval|test) (?=batch)", "", whole).strip()
    )
    if name not in SIZES | LENGTHS and not _COUNTED.fullmatch(name):
        return None
    return replace(column, kind=ColumnKind.SIZE, unit=name, each=whole != read.plain)


def of_family(columns: Collection[PublishedColumn]) -> list[PublishedColumn]:
    """Read llama.cpp's batched-bench letters as sizes, if its other columns are there."""
    names = {plain(column.header): column for column in columns}
    letters = {"pp": "prompt", "tg": "generated", "b": "batch", "n kv": "kept"}
    if not letters.keys() <= names.keys():
        return list(columns)
    return [
        replace(column, kind=ColumnKind.SIZE, unit=letters[name], scale=1.0)
        if (name := plain(column.header)) in letters
        else column
        for column in columns
    ]
