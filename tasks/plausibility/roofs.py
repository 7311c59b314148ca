"""Records far above the best that their own machine was measured to do.

A roof is the best that a search has found: a faster case raises it, and a slow moment lowers it. So a record
above it is refused only where it does twice as much as the roof and all products and copies beside it, and
where nothing is to be said against the roof itself.
"""

from collections.abc import Iterator, Sequence

from workloads.harness.records.amounts import least_flops
from workloads.harness.records.record import Record
from workloads.harness.roofline.ceilings import Ceilings, ceilings_of, machine_of
from workloads.harness.roofline.roof import COPY, PRODUCT, READ, RoofRate, roof_of
from workloads.harness.roofline.roofline import si

BEYOND = 2.0  # times the ceiling


def above_roofs(records: Sequence[Record], caches: dict[str, int]) -> Iterator[tuple[Record, str]]:
    """Yield each record that is too far above the roof of its machine, with the reason.

    Args:
        records: of all machines, each of which is plausible by itself.
        caches: by device, bytes that a cache may keep from one step to the next.
    """
    machines: dict[object, list[Record]] = {}
    for record in records:
        machines.setdefault(machine_of(record), []).append(record)
    for members in machines.values():
        sound = [rate for rate in roof_of(members) if rate.is_sound]
        if not sound:
            continue
        ceilings = ceilings_of(members)
        for record in members:
            if reason := _above(record, sound, ceilings, caches.get(record.device, 0)):
                yield record, reason


def _above(record: Record, sound: Sequence[RoofRate], ceilings: Ceilings, cache_bytes: int) -> str | None:
    work, seconds, precision = record.work, record.compute_s, record.case.precision
    if work is None or not seconds:
        return None
    devices = len(record.group.ranks) if record.group and record.device != "cpu" else 1
    products = any(rate.kind == PRODUCT and rate.precision == precision for rate in sound)
    if products and work.flops and (top := dict(ceilings.compute).get(precision)):
        rate = least_flops(work.flops, work.conv_flops, precision) / seconds
        if rate > BEYOND * devices * top.value:
            return _reason(
                rate, devices * top.value, "FLOP/s", f"the fastest product of this machine in {precision}"
            )
    if any(rate.kind in (COPY, READ) for rate in sound) and work.bytes and ceilings.memory:
        rate, top = (work.bytes - devices * cache_bytes) / seconds, ceilings.memory
        if rate > BEYOND * devices * top.value:
            return _reason(
                rate, devices * top.value, "B/s", "the fastest read or copy of this machine's memory"
            )
    return None


def _reason(rate: float, top: float, unit: str, name: str) -> str:
    return f"{si(rate)}{unit} is {rate / top:.3g} times {name}, {si(top)}{unit}, its measured roof"
