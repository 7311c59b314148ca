"""Rates above a GPU's peaks."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from tasks.plausibility.physics import CACHE_BYTES, MARGIN
from tasks.published.rounded import cell
from tasks.published.sizes import PRECISIONS, flops, precision
from tasks.published.table import ColumnKind, Compared, Printed, PublishedTable, TableFlaw, TableRow
from tasks.results.format import significant
from tasks.results.model import Machine

# A rate with one of these can be above the peaks of gpus.yaml, which are dense and lack these formats.
_FASTER = re.compile(
    r"fp8|f8\b|e4m3|e5m2|int8|i8\b|int4|fp4|nvfp4|mxfp|spars|2:4|w8a8|w4a|1-?bit|binary|\btops\b"
)
_CONVOLVES = re.compile(r"winograd|conv|\bfwd\b")
WINOGRAD = 2.25  # times the products of a convolution by its definition, which tables count
UNSAID = 2.0  # times the highest peak on file: a table that does not name its precision can compute in fp8
_CACHED = re.compile(
    r"cache|\bl1\b|\bl2\b|shared|nvlink|nvswitch|aggregate|register|effective|equivalent|compress"
)
_SEVERAL = re.compile(r"\b(\d{1,5})\s*[x×]\s*(?=[a-z])|\b(\d{1,5})[ -]?gpus?\b")


def above_peaks(
    table: PublishedTable, machine: Machine | None, gpus: Mapping[str, Machine], in_fp8: Collection[str] = ()
) -> Iterator[TableFlaw | Compared]:
    """Report rows above the peaks of their GPU, or else of `machine`.

    GPUs `in_fp8` compute in fp8 at twice the fp16 rate.
    """
    faster = {model_of(key).upper() for key in in_fp8}
    named = {id(row): named_gpu(row.text, gpus) for row in table.rows}
    held = 0
    for index in table.some(ColumnKind.RATE, ColumnKind.TIME):
        column = table.columns[index]
        above = named_gpu(column.header, gpus)
        if "cpu" in column.header.lower() or (column.each and column.kind is ColumnKind.TIME):
            continue
        for row in table.rows:
            value = cell(row, index)
            own = {gpu.name: gpu for gpu in (above, named[id(row)]) if gpu}
            limit = next(iter(own.values())) if len(own) == 1 and not _names(machine, own) else machine
            doubled = limit is not machine and limit is not None and limit.name in faster
            if value and limit:
                held += any(_rates(table, row, index, value))
                if flaw := _above(table, row, index, value, limit, doubled):
                    yield flaw
    yield Compared("peaks of GPUs", held)


def _names(machine: Machine | None, own: Collection[str]) -> bool:
    return machine is not None and model_of(machine.name).upper() in own


def named_gpu(text: str, gpus: Mapping[str, Machine]) -> Machine | None:
    """Return the highest peaks of several variants."""
    words = set(re.findall(r"[a-z]+\d+[a-z]*", text.lower()))
    models = {model_of(key) for key in gpus} & words
    if len(models) != 1:
        return None
    model = models.pop()
    variants = [machine for key, machine in gpus.items() if model_of(key) == model]
    peaks: dict[str, float] = {}
    for machine in variants:
        for name, rate in machine.peak_flops:
            peaks[name] = max(rate, peaks.get(name, 0.0))
    bandwidth = max((m.peak_bytes_per_s or 0.0 for m in variants), default=0.0) or None
    return Machine(model.upper(), None, peak_flops=tuple(peaks.items()), peak_bytes_per_s=bandwidth)


def model_of(key: str) -> str:
    """Return `a100` of `a100-80-sxm`."""
    return key.split("-")[0]


def peak_for(row: TableRow, machine: Machine, header: str = "") -> tuple[str, float | None]:
    """Return the highest of the named precisions, else of all.

    Two can be named: of inputs and of sums.
    """
    peaks = dict(machine.peak_flops)
    stated = [name for name in PRECISIONS if name in f"{row.text} {header.lower()}" and name in peaks]
    name = max(stated or peaks, key=lambda known: peaks[known], default="")
    return name if stated else f"{name}, its highest", peaks.get(name)


def peaks_used(table: PublishedTable, machine: Machine | None) -> tuple[str, ...]:
    """Name the peak for rows without a precision, or state that there was none."""
    if machine is None:
        return ()
    rated = [i for i in table.of(ColumnKind.RATE) if table.columns[i].unit in ("flops", "bytes")]
    rows = [row for row in table.rows if flops(row) or "bytes" in dict(row.sizes) or rated]
    if not rows:
        return (f"no row states work that the peaks of {machine.name} could limit",)
    if all(precision(row) in dict(machine.peak_flops) for row in rows):
        return ()
    name, peak = peak_for(next(r for r in rows if precision(r) not in dict(machine.peak_flops)), machine)
    rate = f"{(peak or 0.0) / 1e12:g} TFLOP/s"
    return (f"the precision is not stated; compared with {machine.name} in {name}, {rate}",)


def _above(
    table: PublishedTable, row: TableRow, index: int, value: Printed, machine: Machine, doubled: bool
) -> TableFlaw | None:
    column = table.columns[index]
    own = f"{column.header} {row.text}".lower()
    devices = _devices(table, row, column.header)
    name, peak = peak_for(row, machine, column.header)
    if peak and doubled and name.endswith("highest"):
        peak *= UNSAID
    computed, moved = _rates(table, row, index, value)
    most = MARGIN * (peak or math.inf) * devices * (WINOGRAD if _says(_CONVOLVES, table, own) else 1.0)
    if computed and computed > most and not _says(_FASTER, table, own):
        words = f"the peak of {machine.name} in {name}, {(peak or 0.0) / 1e12:g} TFLOP/s"
        return _flaw(row, column.header, f"{significant(computed / 1e12, 3)} TFLOP/s", words, devices)
    top = machine.peak_bytes_per_s
    if moved and top and moved > MARGIN * top * devices and not _says(_CACHED, table, own):
        words = f"the memory bandwidth of {machine.name}, {top / 1e9:g} GB/s"
        return _flaw(row, column.header, f"{significant(moved / 1e9, 3)} GB/s", words, devices)
    return None


def _says(words: re.Pattern[str], table: PublishedTable, own: str) -> bool:
    return bool(words.search(own)) or _anywhere(words, table.about)


@lru_cache(maxsize=8)
def _anywhere(words: re.Pattern[str], about: str) -> bool:
    return bool(words.search(about))


def _rates(
    table: PublishedTable, row: TableRow, index: int, value: Printed
) -> tuple[float | None, float | None]:
    """Return the least FLOP/s and bytes/s."""
    column = table.columns[index]
    if column.kind is ColumnKind.RATE:
        computed, moved = (value.low if column.unit == unit else None for unit in ("flops", "bytes"))
        return computed, moved
    work, held = flops(row), dict(row.sizes).get("bytes")
    moved = (held - CACHE_BYTES["cuda"]) / value.high if held else None
    return (work / value.high if work else None), moved


def _devices(table: PublishedTable, row: TableRow, header: str) -> float:
    counts = [value.value for i in table.of(ColumnKind.DEVICES) if (value := cell(row, i))]
    counts += [float(a or b) for a, b in _SEVERAL.findall(f"{row.text} {header.lower()}")]
    return max([1.0, *(count for count in counts if count < 1e5)])


def _flaw(row: TableRow, header: str, rate: str, limit: str, devices: float) -> TableFlaw:
    times = f" times {devices:g}" if devices > 1 else ""
    text = f"{row.name} would run at {rate} or more in {header}, above {limit}{times}"
    return TableFlaw("above the peak", (row.name,), text)
