"""Contradictions between records."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, permutations

from tasks.results.model import Machine
from tasks.results.repeats import Repeats, group
from tasks.results.scaling import ABOVE_LINEAR, device_model, device_ratio, efficiency
from tasks.results.speedup import per_unit, speedup
from tasks.results.values import Estimate
from workloads.harness.records.case import HELPERS, Case
from workloads.harness.records.record import Record

SMALL_S = 100e-6  # shorter times consist of launches and wake-ups, not work
TWICE = 2.0
FEW = 16  # equal records of which every pair is compared
FAR_ABOVE_LINEAR = 1.5  # neither caches nor noise make one repeat that much better than its devices
DISTINCT = 3  # different values that make equal samples a copy; fewer can be a coarse clock's coincidence

Found = tuple[Record, str]


def between(records: Sequence[Record], machines: Mapping[str, Machine]) -> Iterator[Found]:
    """Yield contradicted records, with reasons."""
    yield from _copies(records)
    yield from _shrinking(records)
    yield from _superlinear(records, machines)


def copied(record: Record, other: Record, elsewhere: bool) -> str | None:
    """Refuse samples equal to another case's on its machine.

    Few different values can agree by chance; then the cases must also agree `elsewhere`, on a second machine,
    as in the AWS blog's table.
    """
    if record.case == other.case or not record.wall or not other.wall:
        return None
    samples = record.wall.samples_s
    if samples != other.wall.samples_s or (len(set(samples)) < DISTINCT and not elsewhere):
        return None
    return f"its {len(samples)} samples equal those of {other.case.id} in every digit: one record is a copy"


def shrinks(record: Record, others: Iterable[Record]) -> str | None:
    """Refuse twice the work of another case in half its time, if a third confirms it.

    Equal times prove nothing: a launch-bound step takes as long at any small batch. Nor does one slow small
    case. So the record must have four times the rate of every other case of at least 100 us, at least two.
    """
    compared, beaten = 0, None
    for other in others:
        gain = _gain(record, other)
        if gain is None:
            continue
        work, time, _ = gain
        if work * time < TWICE * TWICE:
            return None
        compared += 1
        if beaten is None and work >= TWICE and time > TWICE:
            beaten = gain
    if beaten is None or compared < 2:
        return None
    work, _, other = beaten
    return (
        f"it took {record.compute_s:.3g} s for {work:.3g} times the work of {other.case.id}, "
        f"which took {other.compute_s:.3g} s"
    )


def superlinear(value: Estimate, ratio: float, baseline: str) -> str | None:
    """Refuse an efficiency above 105 % by its interval, or above 150 % without one."""
    if value.low is None and value.value <= FAR_ABOVE_LINEAR:
        return None
    if value.low is not None and value.low <= ABOVE_LINEAR:
        return None
    return (
        f"{value.value * ratio:.3g} times the speed of {baseline} with {ratio:.3g} times its devices is "
        f"{100 * value.value:.3g} % scaling"
    )


def _copies(records: Sequence[Record]) -> Iterator[Found]:
    alike: dict[tuple[str, tuple[float, ...]], list[Record]] = defaultdict(list)
    for record in records:
        if record.wall:
            alike[record.hardware, record.wall.samples_s].append(record)
    pairs = [
        pair  # of many records, each with the first is enough to name them all
        for same in alike.values()
        for pair in (combinations(same, 2) if len(same) <= FEW else ((same[0], r) for r in same[1:]))
    ]
    machines: dict[frozenset[Case], set[str]] = defaultdict(set)
    for first, second in pairs:
        machines[frozenset((first.case, second.case))].add(first.hardware)
    for first, second in pairs:
        elsewhere = len(machines[frozenset((first.case, second.case))]) > 1
        for record, twin in ((first, second), (second, first)):
            if reason := copied(record, twin, elsewhere):
                yield record, reason


def _shrinking(records: Sequence[Record]) -> Iterator[Found]:
    """Yield records too fast for every other case's fastest repeat.

    The slowest come first: usually one has a similar rate. A record without work has no rate.
    """
    families: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in (record for record in records if record.work is not None and record.compute_s):
        case, hands = record.case, tuple(record.case.params.get(name) for name in HELPERS)
        families[record.hardware, record.device, case.workload, case.terms, hands].append(record)
    for family in families.values():
        slowest_first = sorted(family, key=lambda r: r.compute_s or 0.0, reverse=True)
        fastest = {record.case: record for record in slowest_first}
        long = [record for record in fastest.values() if (record.compute_s or 0.0) >= SMALL_S]
        for record in family:
            if reason := shrinks(record, (other for other in long if other.case != record.case)):
                yield record, reason


def _superlinear(records: Sequence[Record], machines: Mapping[str, Machine]) -> Iterator[Found]:
    """Compare machines of one model by case.

    Load on the smaller machine makes the larger look too fast, so busy ones prove nothing.
    """
    cells: dict[tuple[Case, str, str], list[Repeats]] = defaultdict(list)
    for cell in group(records, (), {}):
        first = cell.records[0]
        if (model := device_model(first)) and not cell.provisional:
            cells[cell.cell.case, first.device, model].append(cell)
    for alike in cells.values():
        for base, side in permutations(alike, 2):
            if reason := _beyond_linear(side, base, machines):
                yield from ((record, reason) for record in side.records)


def _beyond_linear(side: Repeats, base: Repeats, machines: Mapping[str, Machine]) -> str | None:
    first, other = side.records[0], base.records[0]
    ratio = device_ratio(first, machines.get(first.hardware), other, machines.get(other.hardware))
    if ratio is None:
        return None
    base_s, side_s = per_unit(base, side)
    if max(base_s) / min(side_s) <= ABOVE_LINEAR * ratio:
        return None  # the interval is not needed
    gain = speedup(base_s, side_s)
    return superlinear(efficiency(gain.estimate, ratio), ratio, other.hardware) if gain else None


def _gain(record: Record, other: Record) -> tuple[float, float, Record] | None:
    """Return ratios of work and time to another record; None if not comparable.

    A whole job of fewer steps is not: larger batches can take less time. Work is the first of FLOPs, bytes
    and units that both have.
    """
    seconds, other_s = record.compute_s, other.compute_s
    if record.work is None or other.work is None or not seconds or not other_s or other_s < SMALL_S:
        return None
    if _steps(record) < _steps(other):
        return None
    ours, theirs = record.work, other.work
    pairs = ((ours.flops, theirs.flops), (ours.bytes, theirs.bytes), (ours.units, theirs.units))
    work = next((a / b for a, b in pairs if a and b), None)
    return None if work is None else (work, other_s / seconds, other)


def _steps(record: Record) -> int:
    training = record.training
    whole = record.wall is not None and record.wall.whole
    return max(len(training.losses), len(training.step_s)) if whole and training else 1
