"""A machine's measured ceilings: its highest rates."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from workloads.harness.engine.cache import TIMES
from workloads.harness.records.amounts import is_duration
from workloads.harness.records.case import EAGER
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record
from workloads.harness.roofline.roof import (
    COPY,
    FILLING_N,
    LAUNCH,
    PRODUCT,
    READ,
    RoofRate,
    in_cache,
    kept_rates,
    measured_rates,
)

MOVES = ("h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable")

MachineKey = tuple[str, str, str, int | None]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest measured rate of a kind: FLOP/s, bytes/s, or seconds per launch.

    `source` is the id of its record, and `note` a doubt about it, if any.
    """

    value: float
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """A machine's measured maxima, with the same device and threads.

    Attributes:
        compute: by precision, FLOP/s of the fastest matrix product that fills the device, else of the
            largest.
        memory: bytes/s of a copy (read and written) or a read, whichever is faster, of at least four times
            the last-level cache.
        cache: bytes/s of the fastest smaller copy or read.
        gemv: by precision, bytes/s of the fastest product of one row with weights larger than any cache.
        moves: by kind (`h2d_pinned` and so on), bytes/s between host and device.
        launch_s: seconds to launch one operation.
    """

    compute: tuple[tuple[str, Ceiling], ...] = ()
    memory: Ceiling | None = None
    cache: Ceiling | None = None
    gemv: tuple[tuple[str, Ceiling], ...] = ()
    moves: tuple[tuple[str, Ceiling], ...] = ()
    launch_s: Ceiling | None = None
    last_level_bytes: int | None = None


def machine_of(record: Record) -> MachineKey:
    """Return the key of comparable records: hardware, environment, device, threads.

    Processes on a CPU share its cores, so their threads add up.
    """
    together = len(record.group.ranks) if record.group and record.device == "cpu" else 1
    threads = None if record.threads is None else record.threads * together
    return record.hardware, record.environment_id, record.device, threads


def ceilings_by_machine(records: Iterable[Record]) -> dict[MachineKey, Ceilings]:
    records_of: dict[MachineKey, list[Record]] = {}
    for record in records:
        records_of.setdefault(machine_of(record), []).append(record)
    return {key: ceilings_of(members) for key, members in records_of.items()}


def ceilings_of(records: Sequence[Record]) -> Ceilings:
    if len({machine_of(record) for record in records}) > 1:
        raise ValueError("the records are from several machines; use ceilings_by_machine")
    timed = [record for record in records if counts(record) and record.compute_s and record.work]
    by_name = {name: [r for r in timed if r.case.workload == name] for name in _USED}
    sizes = (r.cache.last_level_bytes for r in timed if r.cache)
    copied = [*by_name["memory_bandwidth"], *by_name["memory_read"]]
    large = [r for r in copied if not in_cache(r)]
    small = [r for r in copied if in_cache(r)]
    kept = kept_rates(records)
    roof = [*kept, *(rate for rate in measured_rates(timed) if rate.kind == PRODUCT)]
    launches = (_launch(by_name["kernel_launch"]), _ceiling(kept, LAUNCH))
    return Ceilings(
        compute=tuple(_with_roof(_compute(by_name["matmul"]), roof)),
        memory=_faster(
            _fastest(large, _bytes_per_s, _memory_note), _ceiling(kept, COPY), _ceiling(kept, READ)
        ),
        cache=_fastest(small, _bytes_per_s),
        gemv=tuple(_gemv([r for r in by_name["gemm"] if is_gemv(r) and not in_cache(r)])),
        moves=tuple(  # a record's `transfer` has all four kinds; its own step is the pinned one
            (kind, ceiling)
            for kind in MOVES
            if (ceiling := _fastest(by_name["transfer_bandwidth"], partial(_moved_per_s, kind)))
        ),
        launch_s=min(filter(None, launches), key=lambda ceiling: ceiling.value, default=None),
        last_level_bytes=next((size for size in sizes if size), None),
    )


_USED = ("matmul", "memory_bandwidth", "memory_read", "gemm", "transfer_bandwidth", "kernel_launch")
GEMV_FLOPS = (1.0, 2.2)  # per weight: one multiplication and addition, of embeddings none, and a little


def is_gemv(record: Record) -> bool:
    if record.case.workload == "gemm":
        return record.case.params.get("m") == 1
    work = record.work
    if work is None or not work.parameters or not work.matmul_flops:
        return False
    least, most = GEMV_FLOPS
    return least <= work.matmul_flops / work.parameters <= most


def _gemv(records: Sequence[Record]) -> Iterable[tuple[str, Ceiling]]:
    for precision, same in _by_precision(records):
        if ceiling := _fastest(same, _bytes_per_s):
            yield precision, ceiling


def _compute(records: Sequence[Record]) -> Iterable[tuple[str, Ceiling]]:
    for precision, same in _by_precision(records):
        least = min(max(map(_n, same)), FILLING_N.get(same[0].device, 0))
        ceiling = _fastest([r for r in same if _n(r) >= least], _flops_per_s, _compute_note)
        if ceiling:
            yield precision, ceiling


def _by_precision(records: Sequence[Record]) -> Iterable[tuple[str, list[Record]]]:
    for precision in dict.fromkeys(record.case.precision for record in records):
        yield precision, [record for record in records if record.case.precision == precision]


def _with_roof(
    products: Iterable[tuple[str, Ceiling]], roof: Sequence[RoofRate]
) -> Iterable[tuple[str, Ceiling]]:
    compute = dict(products)
    for precision in dict.fromkeys((*compute, *(rate.precision for rate in roof if rate.kind == PRODUCT))):
        faster = _faster(compute.get(precision), _ceiling(roof, PRODUCT, precision))
        if faster:
            yield precision, faster


def _ceiling(roof: Sequence[RoofRate], kind: str, precision: str = "fp32") -> Ceiling | None:
    rates = [rate for rate in roof if (rate.kind, rate.precision) == (kind, precision)]
    if not rates:
        return None
    top = reduce(lambda one, other: other if other.beats(one) else one, rates)
    mode = "" if top.mode == EAGER else f" {top.mode}"
    return Ceiling(top.value, f"the roof, {top.size}{mode}, {top.measured_at}")


def _faster(*ceilings: Ceiling | None) -> Ceiling | None:
    return max(filter(None, ceilings), key=lambda ceiling: ceiling.value, default=None)


def _launch(records: Sequence[Record]) -> Ceiling | None:
    rate = _fastest(records, _launches_per_s)
    return Ceiling(1 / rate.value, rate.source) if rate else None


def _fastest(
    records: Iterable[Record],
    rate: Callable[[Record], float | None],
    note: Callable[[Record], str] = lambda record: "",
) -> Ceiling | None:
    rated = [(value, record) for record in records if (value := rate(record))]
    if not rated:
        return None
    value, record = max(rated, key=lambda pair: pair[0])
    return Ceiling(value, record.id, note(record))


def _flops_per_s(record: Record) -> float | None:
    return _rate(record.work.flops if record.work else None, record)


def _bytes_per_s(record: Record) -> float | None:
    return _rate(record.work.bytes if record.work else None, record)


def _rate(work: float | None, record: Record) -> float | None:
    return work / record.compute_s if work and record.compute_s else None


def _n(record: Record) -> int:
    return record.case.params.get("n", 0)


def _launches_per_s(record: Record) -> float | None:
    kernels = record.case.params.get("kernels")
    return kernels / record.wall.median_s if kernels and record.wall and record.wall.median_s else None


def _moved_per_s(kind: str, record: Record) -> float | None:
    if kind == "h2d_pinned":
        return _bytes_per_s(record)
    moved = record.transfer
    if moved is None:
        return None
    seconds: float = getattr(moved, f"{kind}_s")
    size = moved.h2d_bytes if kind.startswith("h2d") else moved.d2h_bytes
    return size / seconds if is_duration(seconds) else None


def _memory_note(record: Record) -> str:
    known = record.cache and record.cache.last_level_bytes
    return "" if known else f"not known to be {TIMES} times the last-level cache"


def _compute_note(record: Record) -> str:
    n, least = _n(record), FILLING_N.get(record.device, 0)
    why = f"n={n} is below {least} and might not fill the device, so the true ceiling might be higher"
    return why if n < least else ""
