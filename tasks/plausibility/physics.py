"""The plausibility of records. A false alarm is worse than a miss.

Rules between records are in `coherence`. An impossible record is shown with the reason, and is in no
estimate.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tasks.plausibility import coherence
from tasks.plausibility.contradictions import contradictions, out_of_range
from tasks.plausibility.gpu_names import names_in, other_model
from tasks.plausibility.trainings import Standing, courses
from tasks.results.model import Machine
from tasks.results.repeats import RecordKey, WrongTraining, key
from workloads.harness.records.amounts import least_flops
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record, Timing
from workloads.harness.roofline.ceilings import Ceilings, ceilings_of, machine_of
from workloads.harness.roofline.roof import COPY, PRODUCT, READ, RoofRate, roof_of
from workloads.harness.roofline.roofline import si

MARGIN = 1.05  # a boost clock above the data sheet's, and its rounding
# Compulsory traffic that a last-level cache can keep from the previous step, for the largest common caches:
# GPU L2: 126 MB (B200). CPU: 384 MB L3 (EPYC 9004), 504 MB (Xeon 6900P).
CACHE_BYTES = {"cuda": 128 * 2**20, "cpu": 512 * 2**20}


def gate(records: Sequence[Record], machines: Sequence[Machine]) -> dict[RecordKey, tuple[str, ...]]:
    """Return the reasons against implausible records.

    Valid records are judged, and those plausible by themselves compared.
    """
    available = {machine.name: machine for machine in machines}
    found: dict[RecordKey, list[str]] = defaultdict(list)
    counting = [record for record in records if counts(record)]
    for record in counting:
        found[key(record)] += alone(record, available.get(record.hardware))
    plausible = [record for record in counting if not found[key(record)]]
    for record, reason in (*above_roofs(plausible, CACHE_BYTES), *coherence.between(plausible, available)):
        found[key(record)].append(reason)
    for course in courses(counting, machines):
        if course.standing is Standing.WRONG:
            found[key(course.record)].append(WrongTraining(course.detail))
    return {name: tuple(dict.fromkeys(reasons)) for name, reasons in found.items() if reasons}


def alone(record: Record, machine: Machine | None) -> list[str]:
    """Judge a record by itself."""
    bad_time = not_a_time(record)
    if bad_time:
        return [bad_time]  # nothing can be divided by it
    reasons = (
        not_its_median(record.wall),
        not_its_median(record.device_time),
        not_its_sum(record),
        not_its_ranks(record),
        above_peak(record, machine),
        above_bandwidth(record, machine),
        elsewhere(record, machine),
    )
    return [*contradictions(record), *(reason for reason in reasons if reason)]


def not_a_time(record: Record) -> str | None:
    """Refuse a time not positive, not finite, beyond a clock's range, or missing."""
    if record.compute_s is None:
        return None if record.metrics else "it counts but holds no time"
    times = (("compute", record.compute_s), ("end-to-end", record.end_to_end_s), ("mean", record.mean_s))
    for name, seconds in times:
        if seconds is not None and out_of_range(seconds):
            return f"its {name} time is {seconds:g} s"
    return None


def not_its_median(timing: Timing | None) -> str | None:
    """Refuse a median not of its samples."""
    if timing is None:
        return None
    if not timing.samples_s:
        return "it states a median without samples"
    median = statistics.median(timing.samples_s)
    if math.isclose(timing.median_s, median, rel_tol=1e-9):
        return None
    samples = len(timing.samples_s)
    return f"it states a median of {timing.median_s:.6g} s, its {samples} samples have {median:.6g} s"


def not_its_sum(record: Record) -> str | None:
    """Refuse phases whose sum differs from the wall time by over 2 %."""
    if not record.phases_s or record.wall_s <= 0:
        return None
    total = math.fsum(record.phases_s.values()) + record.unattributed_s
    if math.isclose(total, record.wall_s, rel_tol=0.02):
        return None
    return f"its phases and the rest add up to {total:.3g} s, its process took {record.wall_s:.3g} s"


def not_its_ranks(record: Record) -> str | None:
    """Refuse another size than the case's, or a step shorter than its slowest rank's."""
    if record.group is None:
        return None
    ranks, selected = record.group.ranks, record.case.params.get("processes")
    if selected is not None and len({rank.rank for rank in ranks}) != selected:
        return f"its case asks for {selected} processes, {len(ranks)} measured"
    slowest = max((rank.median_s for rank in ranks), default=0.0)
    if record.wall is None or record.wall.whole or slowest <= MARGIN * record.wall.median_s:
        return None
    return f"its step took {record.wall.median_s:.3g} s, that of its slowest rank {slowest:.3g} s"


def above_peak(record: Record, machine: Machine | None) -> str | None:
    """Refuse FLOP/s above the precision's peak.

    FLOPs by formula ignore savings of convolution algorithms.
    """
    peak = dict(machine.peak_flops).get(record.case.precision, 0.0) * _processes(record) if machine else 0.0
    if not peak or not record.work or not record.work.flops or not record.compute_s:
        return None
    rate = least_flops(record.work.flops, record.work.conv_flops, record.case.precision) / record.compute_s
    if rate <= MARGIN * peak:
        return None
    return (
        f"{rate / 1e12:.3g} TFLOP/s is {rate / peak:.3g} times the peak of {record.hardware} in "
        f"{record.case.precision}, {peak / 1e12:.3g} TFLOP/s"
    )


def above_bandwidth(record: Record, machine: Machine | None) -> str | None:
    """Refuse more bytes than the memory can move, beyond a cache.

    `Work.bytes` is compulsory traffic, so at least bytes - cache come from memory.
    """
    peak = (machine.peak_bytes_per_s or 0.0) * _processes(record) if machine else 0.0
    if not peak or not record.work or not record.work.bytes or not record.compute_s:
        return None
    caches = CACHE_BYTES.get(record.device, 0) * _processes(record)
    rate = (record.work.bytes - caches) / record.compute_s
    if rate <= MARGIN * peak:
        return None
    return (
        f"{rate / 1e9:.3g} GB/s, caches excluded, is {rate / peak:.3g} times the bandwidth of "
        f"{record.hardware}, {peak / 1e9:.3g} GB/s"
    )


def elsewhere(record: Record, machine: Machine | None) -> str | None:
    """Refuse another machine or purchase than planned."""
    if machine is None:
        return None
    for field in ("instance_type", "purchase"):
        planned, measured = getattr(machine, field), record.environment.get(field)
        if planned and measured and measured != planned:
            return f"it was measured on {measured} capacity, but {planned} was planned and priced"
    names = names_in(record.environment)
    if other := other_model(machine.gpu, names, dict(machine.gpus_called)):
        return f"it was measured on {names[0]} ({other}), but {machine.gpu} was planned and priced"
    return None


def _processes(record: Record) -> int:
    return len(record.group.ranks) if record.group and record.device != "cpu" else 1


BEYOND = 2.0  # times the ceiling


def above_roofs(records: Sequence[Record], caches: dict[str, int]) -> Iterator[tuple[Record, str]]:
    """Yield records too far above their machine's roof, with the reason.

    Args:
        records: each plausible by itself.
        caches: bytes kept between steps, by device.
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
    devices = _processes(record)
    products = any(rate.kind == PRODUCT and rate.precision == precision for rate in sound)
    if products and work.flops and (top := dict(ceilings.compute).get(precision)):
        rate, roof = least_flops(work.flops, work.conv_flops, precision) / seconds, devices * top.value
        if rate > BEYOND * roof:
            return _reason(rate, roof, "FLOP/s", f"the fastest product of this machine in {precision}")
    if any(rate.kind in (COPY, READ) for rate in sound) and work.bytes and ceilings.memory:
        rate, roof = (work.bytes - devices * cache_bytes) / seconds, devices * ceilings.memory.value
        if rate > BEYOND * roof:
            return _reason(rate, roof, "B/s", "the fastest read or copy of this machine's memory")
    return None


def _reason(rate: float, top: float, unit: str, name: str) -> str:
    return f"{si(rate)}{unit} is {rate / top:.3g} times {name}, {si(top)}{unit}, its measured roof"
