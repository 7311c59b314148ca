"""A machine's best measured rates, by this run's records or its box's cache."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from workloads.harness.engine.cache import state
from workloads.harness.probes.roof import RATES
from workloads.harness.records.amounts import is_duration
from workloads.harness.records.grade import counts
from workloads.harness.records.intervals import Interval
from workloads.harness.records.record import Record, Timing, Verdict

PRODUCT, COPY, READ, LAUNCH = "product", "copy", "read", "launch"
ALL_REDUCE, LATENCY = "all-reduce", "all-reduce latency"
UNITS = {PRODUCT: "FLOP/s", COPY: "B/s", READ: "B/s", LAUNCH: "s", ALL_REDUCE: "B/s", LATENCY: "s"}
# From this size on a product fills the device: on a CPU it is far larger than the blocks of its library; on a
# GPU of over 100 multiprocessors it gives each of them several tiles of 128 x 256.
FILLING_N = {"cpu": 1000, "cuda": 4096}
RATES_IN = "roof"  # the key of a record's environment
MOST = 1e24  # FLOP/s or bytes/s of one machine


@dataclass(frozen=True, slots=True)
class RoofRate:
    """One limit of a machine, its best measurement.

    Attributes:
        kind: one of `UNITS`, the unit of `value`, `low` and `high`; the two are a 95 % interval of the best
            case's median, None with too few samples.
        precision, mode: of its case; a copy has none, and is in fp32.
        size: of the case, or a search's choice: `m=2048,n=1024,k=2048`.
        measured_at: UTC, ISO 8601.
        verdict: of its record; only `ok` is sound enough for comparisons with other records.
    """

    kind: str
    value: float
    low: float | None = None
    high: float | None = None
    precision: str = "fp32"
    mode: str = "eager"
    size: str = ""
    processes: int = 1
    measured_at: str = ""
    verdict: str = Verdict.OK.value

    @property
    def name(self) -> tuple[str, str, str, int]:
        return self.kind, self.precision, self.mode, self.processes

    @property
    def is_sound(self) -> bool:
        return self.verdict == Verdict.OK.value

    def beats(self, other: "RoofRate") -> bool:
        return self.value < other.value if UNITS[self.kind] == "s" else self.value > other.value


def roof_of(records: Sequence[Record]) -> list[RoofRate]:
    return best((*kept_rates(records), *measured_rates(records)))


def measured_rates(records: Iterable[Record]) -> list[RoofRate]:
    return best(rate for record in records if counts(record) for rate in _rates(record))


def kept_rates(records: Iterable[Record]) -> list[RoofRate]:
    newest = max(
        (record for record in records if RATES_IN in record.environment),
        key=lambda record: record.started_at,
        default=None,
    )
    return rates_from(newest.environment[RATES_IN]) if newest else []


def rates_from(kept: object) -> list[RoofRate]:
    """Read cached rates without malformed ones: the file can be another version's."""
    rows = kept if isinstance(kept, list) else []
    return [rate for row in rows if isinstance(row, dict) and (rate := _rate_from(row))]


def rates_kept(rates: Iterable[RoofRate]) -> dict[str, list[dict[str, Any]]]:
    return {RATES: [asdict(rate) for rate in rates]}


def best(rates: Iterable[RoofRate]) -> list[RoofRate]:
    roof: dict[tuple[str, str, str, int], RoofRate] = {}
    for rate in rates:
        before = roof.get(rate.name)
        if before is None or not before.beats(rate):
            roof[rate.name] = rate
    kinds = list(UNITS)
    return sorted(roof.values(), key=lambda rate: kinds.index(rate.kind))


def in_cache(record: Record) -> bool:
    """Return whether a copy measures the cache, not the memory."""
    size = record.work.bytes if record.work else None
    cache = record.cache.last_level_bytes if record.cache else None
    return bool(cache) and state(size or 0.0, cache) == "warm"


def _rates(record: Record) -> Iterator[RoofRate]:
    timing, work, params = record.device_time or record.wall, record.work, record.case.params
    if timing is None or work is None or not is_duration(timing.median_s):
        return
    match record.case.workload:
        case "roof" if params["side"] >= FILLING_N.get(record.device, 0):
            yield _rate(record, PRODUCT, timing, work.flops)
        case "memory_bandwidth" if not in_cache(record):
            yield _rate(record, COPY, timing, work.bytes)
        case "memory_read" if not in_cache(record):
            yield _rate(record, READ, timing, work.bytes)
        case "kernel_launch" if record.wall:
            yield _rate(record, LAUNCH, record.wall, params["kernels"])
        case "all_reduce":
            yield _rate(record, ALL_REDUCE, timing, work.units)
            if params["kib"] == 1:
                yield _rate(record, LATENCY, timing, 1)


def _rate(record: Record, kind: str, timing: Timing, work: float | None) -> RoofRate:
    times = Interval(timing.median_s, timing.ci_low_s or timing.median_s, timing.ci_high_s or timing.median_s)
    bounded = timing.ci_low_s is not None and timing.ci_high_s is not None
    amount = work or 0.0
    if UNITS[kind] == "s":
        value, low, high = times.value / amount, times.low / amount, times.high / amount
    else:
        value, low, high = amount / times.value, amount / times.high, amount / times.low
    chosen = record.work.chosen if record.work else ()
    return RoofRate(
        kind,
        value,
        low if bounded else None,
        high if bounded else None,
        record.case.precision,
        record.case.mode,
        ",".join(f"{n}={side}" for n, side in zip("mnk", chosen, strict=False)) or record.case.size_text,
        len(record.group.ranks) if record.group else 1,
        record.started_at,
        record.verdict.value,
    )


def _rate_from(row: Mapping[str, Any]) -> RoofRate | None:
    values = {field.name: row[field.name] for field in fields(RoofRate) if field.name in row}
    numbers = [values.get(name) for name in ("value", "low", "high")]
    words = [values.get(name, "") for name in ("precision", "mode", "size", "measured_at", "verdict")]
    sound = all(number is None or _is_amount(number) for number in numbers) and numbers[0] is not None
    if not sound or values.get("kind") not in UNITS or not all(isinstance(word, str) for word in words):
        return None
    if type(values.get("processes", 1)) is not int:
        return None
    return RoofRate(**values)


def _is_amount(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 1 / MOST < number < MOST
