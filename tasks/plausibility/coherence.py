"""What can't be true of several records together: falling times, copied rows, too much scaling."""

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

SMALL_S = 100e-6  # below it launches and wake-ups, not work, make the time
TWICE = 2.0
FEW = 16  # equal records of which every pair is looked at
FAR_ABOVE_LINEAR = 1.5  # no caches and no noise make one repeat that much better than its devices
DISTINCT = 3  # different values that make equal samples a copy; fewer may be a coarse clock's coincidence

Found = tuple[Record, str]


def between(records: Sequence[Record], machines: Mapping[str, Machine]) -> Iterator[Found]:
    """Each record that the others contradict, with the reason."""
    yield from _copies(records)
    yield from _shrinking(records)
    yield from _superlinear(records, machines)


def copied(record: Record, other: Record, elsewhere: bool) -> str | None:
    """Refuse a record whose samples equal those of another case on the same machine to every digit.

    Times that take few different values (one sample, a rounded table) agree by chance now and then; then the
    same two cases must agree `elsewhere`, on a second machine, too: the published table of the AWS blog.
    """
    if record.case == other.case or not record.wall or not other.wall:
        return None
    samples = record.wall.samples_s
    if samples != other.wall.samples_s or (len(set(samples)) < DISTINCT and not elsewhere):
        return None
    return f"its {len(samples)} samples equal those of {other.case.id} in every digit: one record is a copy"


def shrinks(record: Record, others: Iterable[Record]) -> str | None:
    """Refuse a record that does twice the work of another case in half its time, against every third case.

    Equal times prove nothing: a step that is bound by launches takes as long at any small batch. Nor does one
    slow small case: it may be the odd one, as a cold GPU's first product of 0.9 s beside larger ones of
    0.01 s. So this one must have four times the rate of every other case, at least two, that takes 100 us.
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
    """Refuse a scaling efficiency whose interval lies above 105 %; without one, far above."""
    if value.low is None and value.value <= FAR_ABOVE_LINEAR:
        return None
    if value.low is not None and value.low <= ABOVE_LINEAR:
        return None
    return (
        f"{value.value * ratio:.3g} times the speed of {baseline} with {ratio:.3g} times its devices is "
        f"{100 * value.value:.3g} % scaling"
    )


def _copies(records: Sequence[Record]) -> Iterator[Found]:
    """Groups by machine and samples first, so that a night of thousands of records stays quick."""
    alike: dict[tuple[str, tuple[float, ...]], list[Record]] = defaultdict(list)
    for record in records:
        if record.wall:
            alike[record.hardware, record.wall.samples_s].append(record)
    pairs = [pair for same in alike.values() for pair in _pairs(same)]
    places: dict[frozenset[Case], set[str]] = defaultdict(set)
    for item, other in pairs:
        places[frozenset((item.case, other.case))].add(item.hardware)
    for item, other in pairs:
        elsewhere = len(places[frozenset((item.case, other.case))]) > 1
        for record, twin in ((item, other), (other, item)):
            if reason := copied(record, twin, elsewhere):
                yield record, reason


def _pairs(same: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Every pair of a few records; of many, each with the first, which is enough to name them all."""
    return combinations(same, 2) if len(same) <= FEW else ((same[0], other) for other in same[1:])


def _shrinking(records: Sequence[Record]) -> Iterator[Found]:
    """Compares with the fastest repeat of each other case, the one that is hardest to undercut.

    The slowest cases come first: most often one of them has a like rate, and then no other has to be seen.
    What states no work, as a user's script does, has no rate.
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
    """Compares machines that are known to be of one model, case by case.

    Times beside a load prove nothing: one that slows the smaller machine makes the larger one look too fast.
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
    item, other = side.records[0], base.records[0]
    ratio = device_ratio(item, machines.get(item.hardware), other, machines.get(other.hardware))
    if ratio is None:
        return None
    base_s, side_s = per_unit(base, side)
    if max(base_s) / min(side_s) <= ABOVE_LINEAR * ratio:
        return None  # spares the interval
    gain = speedup(base_s, side_s)
    return superlinear(efficiency(gain.estimate, ratio), ratio, other.hardware) if gain else None


def _gain(record: Record, other: Record) -> tuple[float, float, Record] | None:
    """Return the ratios of work and of time to another record and the record itself.

    None where they can't be compared.

    A whole job of fewer steps is unlike: more work in larger batches may well take less time. Work is the
    first of FLOPs, bytes and units that both have.
    """
    seconds, other_s = record.compute_s, other.compute_s
    if record.work is None or other.work is None or not seconds or not other_s or other_s < SMALL_S:
        return None
    if _steps(record) < _steps(other):
        return None
    item, two = record.work, other.work
    pairs = ((item.flops, two.flops), (item.bytes, two.bytes), (item.units, two.units))
    work = next((a / b for a, b in pairs if a and b), None)
    return None if work is None else (work, other_s / seconds, other)


def _steps(record: Record) -> int:
    """Steps of a whole job; 1 where a step is what was timed."""
    whole = record.wall is not None and record.wall.whole and record.training is not None
    training = record.training
    return max(len(training.losses), len(training.step_s)) if whole and training else 1
