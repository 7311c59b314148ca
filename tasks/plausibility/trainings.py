"""Whether a script's training is the same on every machine.

A user's script has no reference, so its runs are compared. On one kind of device the same seed, data and
order give the same losses, except for rounding errors, which grow: early losses are compared closely. Two
kinds of device draw other random numbers (dropout, noise) from one seed and round differently, and a script
without a seed never repeats itself: then only gross differences count, because a false alarm is worse than a
miss.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tasks.results.model import Machine
from tasks.results.scaling import device_model
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record, Verdict

EARLY = 12  # losses that are compared closely
ROUNDING = 3e-4  # of the first loss, as a share of the largest one
GROWTH = 1.5  # of the rounding error from step to step
SEEDED = 1e-5  # largest difference of first losses of one seed; those of two batches differ by far more
FEWEST = 8  # losses that show a fall
FAR = 3.0  # times the tolerance: between the tolerance and that, nothing is shown
SIGMAS, QUARTER, LEAST = 5.0, 0.25, 0.05  # see `grossly_apart`
NO_SEED = "its repeats differ from the first steps on, so the script has no fixed seed"
ALONE = "one repeat alone does not show that the script has a fixed seed"

Losses = Sequence[float]


class Standing(StrEnum):
    """The verdict on a training by its losses."""

    REFERENCE = "reference"
    SAME = "same"
    UNSHOWN = "not shown"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Course:
    """A training against others; `detail` explains its standing."""

    record: Record
    standing: Standing
    detail: str = ""


def courses(records: Sequence[Record], machines: Sequence[Machine]) -> list[Course]:
    """Judge valid script records, and those refused for their losses."""
    order = {machine.name: place for place, machine in enumerate(machines)}
    alike: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    judged = []
    for record in records:
        if not record.script or not record.script.losses:
            continue
        if reason := _at_once(record):
            judged.append(Course(record, Standing.WRONG, reason))
        elif counts(record):
            script = record.script  # comparable trainings share case, code and the definition of a step
            step = (script.code, script.counted, script.samples, script.optimizers)
            alike[record.case, *step].append(record)
    for same in alike.values():
        judged += _together(sorted(same, key=lambda r: (order.get(r.hardware, len(order)), r.repeat)))
    return judged


def deviation(losses: Losses, others: Losses) -> float:
    """Return the largest early difference over the tolerance; up to 1 they agree."""
    early = list(zip(losses[:EARLY], others[:EARLY], strict=False))
    scale = max((max(abs(a), abs(b)) for a, b in early), default=0.0) or 1.0
    tolerances = [scale * ROUNDING * GROWTH**step for step in range(len(early))]
    return max((abs(a - b) / most for (a, b), most in zip(early, tolerances, strict=True)), default=0.0)


def fall(losses: Losses) -> tuple[float, float]:
    """Return the fall from first to last quarter, and its standard error.

    As shares of the first quarter's mean. The error is half the variance of neighbours' differences.
    """
    quarter = len(losses) // 4
    first, last = statistics.fmean(losses[:quarter]), statistics.fmean(losses[-quarter:])
    scale = statistics.fmean(map(abs, losses[:quarter])) or 1.0
    steps = [(b - a) ** 2 for a, b in pairwise(losses)]
    return (first - last) / scale, math.sqrt(statistics.fmean(steps) / quarter) / scale


def grossly_apart(losses: Losses, others: Losses) -> bool:
    """Return whether only one falls.

    One falls by at least 5 %, the other by less than a quarter of that, five standard errors apart.
    """
    common = min(len(losses), len(others))
    if common < FEWEST:
        return False
    (ours, error), (theirs, other_error) = fall(losses[:common]), fall(others[:common])
    most, least = max(ours, theirs), min(ours, theirs)
    return most > LEAST and least < QUARTER * most and most - least > SIGMAS * math.hypot(error, other_error)


def _at_once(record: Record) -> str:
    losses = record.script.losses if record.script else ()
    step = next((step for step, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
    if step is not None:
        return f"its loss at step {step} is {losses[step - 1]}"
    if record.verdict is Verdict.WRONG:
        return record.reasons[0] if record.reasons else "its own check found it wrong"
    return ""


def _together(records: Sequence[Record]) -> list[Course]:
    # one model of device under one torch draws the same random numbers and rounds alike
    kinds: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in records:
        kinds[record.device, device_model(record), record.environment.get("torch")].append(record)
    base = _gross_reference(records)
    leaders = {kind: _leader(members, base) for kind, members in kinds.items() if _repeats_itself(members)}
    judged = []
    for kind, members in kinds.items():
        for record in members:
            if kind in leaders:
                why = f"its kind of device is not that of {base.hardware}, so random numbers or precision can differ"
                is_far = deviation(_losses(record), _losses(leaders[kind])) > FAR
                wrong = _difference(record, leaders[kind]) if is_far else ""
                judged.append(Course(record, Standing.WRONG, wrong) if wrong else _loose(record, base, why))
            else:
                several = sum(other.hardware == record.hardware for other in members) > 1
                judged.append(_loose(record, base, NO_SEED if several else ALONE))
    return judged


def _loose(record: Record, base: Record, why: str) -> Course:
    if record is base:
        return Course(record, Standing.REFERENCE, why if why == NO_SEED else "")
    if _agree(record, base):
        return Course(record, Standing.SAME, _likeness(record, base))
    if not grossly_apart(_losses(record), _losses(base)):
        return Course(record, Standing.UNSHOWN, why)
    common = min(len(_losses(record)), len(_losses(base)))
    ours, theirs = fall(_losses(record)[:common])[0], fall(_losses(base)[:common])[0]
    text = f"over {common} steps its loss {_fell(ours)}, on {base.hardware} it {_fell(theirs)}"
    return Course(record, Standing.WRONG, text)


def _repeats_itself(records: Sequence[Record]) -> bool:
    """Return whether most machines' repeats share a seed; with single repeats, whether two machines do."""
    machines: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        machines[record.hardware].append(record)
    repeated = [members for members in machines.values() if len(members) > 1]
    seeded = [2 * max(_of_one_seed(r, members) for r in members) > len(members) for members in repeated]
    return 2 * sum(seeded) >= len(seeded) if seeded else any(_of_one_seed(r, records) > 1 for r in records)


def _of_one_seed(record: Record, others: Sequence[Record]) -> int:
    """Count records, with itself, that begin alike and agree, which is not by chance."""
    first = _losses(record)[0]
    begin = [other for other in others if abs(_losses(other)[0] - first) <= SEEDED * abs(first)]
    return sum(_agree(record, other) for other in begin)


def _leader(records: Sequence[Record], base: Record) -> Record:
    return max(records, key=lambda r: (sum(_agree(r, other) for other in records), _agree(r, base)))


def _agree(record: Record, other: Record) -> bool:
    return deviation(_losses(record), _losses(other)) <= 1


def _gross_reference(records: Sequence[Record]) -> Record:
    def votes(record: Record) -> tuple[int, int]:
        apart = sum(grossly_apart(_losses(record), _losses(other)) for other in records)
        return -apart, sum(_agree(record, other) for other in records)

    return max(records, key=votes)


def _difference(record: Record, leader: Record) -> str:
    ours, theirs = _losses(record), _losses(leader)
    early = range(1, min(len(ours), len(theirs), EARLY) + 1)
    first = next(step for step in early if deviation(ours[:step], theirs[:step]) > 1) - 1
    where = f"on {leader.hardware}" if leader.hardware != record.hardware else f"in repeat {leader.repeat}"
    return (
        f"its loss at step {first + 1} is {ours[first]:.6g}, {where} {theirs[first]:.6g}: "
        "more than rounding on one kind of device"
    )


def _likeness(record: Record, base: Record) -> str:
    ours, theirs = _losses(record)[:EARLY], _losses(base)[:EARLY]
    pairs = list(zip(ours, theirs, strict=False))
    most = max(abs(a - b) / (max(abs(a), abs(b)) or 1.0) for a, b in pairs)
    return (
        f"{len(pairs)} losses within {most:.1g} of {base.hardware}" if most else f"{len(pairs)} equal losses"
    )


def _fell(share: float) -> str:
    return f"fell by {100 * share:.0f} %" if share >= 0 else f"rose by {-100 * share:.0f} %"


def _losses(record: Record) -> Losses:
    return record.script.losses if record.script else ()
