"""The advice on one machine: keep it, return it, or undecided."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tasks.findings.acceptance.card_faults import fatal, faults, lost_driver, reported
from tasks.findings.acceptance.population import Member, siblings_of
from tasks.findings.acceptance.prediction import Measure, Slowness, slowness_by_measure, sound_members
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.summaries import over_repeats
from tasks.results.values import Estimate
from tasks.results.wording import verdict_text
from workloads.harness.records.record import RULES, Verdict

TOLERATED = 1.10
"""A machine is kept if its intervals exclude this multiple of the typical sibling's time."""
PUBLISHED = "published rates"


class Advice(StrEnum):
    """The advice on a machine."""

    KEEP = "keep"
    RETURN = "return"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Held:
    """One measure of a machine against siblings or published rates.

    Attributes:
        ratio: over the typical sibling's time, or the longest by published rates.
        chance: that a good machine is as slow; None without siblings.
        is_restless: the CPU's speed varied, as next to another VM's load.
    """

    name: str
    against: str = ""
    ratio: Estimate | None = None
    limit: float | None = None
    chance: float | None = None
    is_slow: bool = False
    is_busy: bool = False
    is_restless: bool = False


@dataclass(frozen=True, slots=True)
class MachineAdvice:
    """The advice on one machine.

    Attributes:
        without_number: cases without a valid result, with the reasons.
        fatal: faults for which the vendor replaces a card, or a silent driver.
    """

    hardware: str
    kind: str
    siblings: int
    left_out: tuple[str, ...] = ()
    held: tuple[Held, ...] = ()
    without_number: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def advice(self) -> Advice:
        if self.fatal or self.wrong or self.slow:
            return Advice.RETURN
        is_clear = self.compared and not self.open and not self.without_number
        return Advice.KEEP if is_clear else Advice.UNDECIDED

    @property
    def slow(self) -> list[Held]:
        """Return measures of slowness without load, the most certain first."""
        own = (held for held in self.held if held.is_slow and not (held.is_busy or held.is_restless))
        return sorted(own, key=lambda h: (h.chance or 0.0, -_value(h)))

    @property
    def compared(self) -> list[Held]:
        return [each for each in self.held if each.against]

    @property
    def open(self) -> list[Held]:
        """Return measures neither slow nor shown fast enough, the highest ratio first."""
        slow, unclear = self.slow, []
        for held in self.compared:
            most = 1.0 if held.against == PUBLISHED else TOLERATED
            is_fine = held.ratio is not None and (held.ratio.high or math.inf) <= most
            unclear += [] if held in slow or is_fine else [held]
        return sorted(unclear, key=_value, reverse=True)


def advise(
    machine: Machine, cells: Sequence[Repeats], own: Member, others: Sequence[Member]
) -> MachineAdvice:
    kin = {f"{member.hardware} in {member.run}": member for member in siblings_of(own, others)}
    sound = sound_members({name: member.values for name, member in kin.items()})
    standing = slowness_by_measure(own.values, [kin[name].values for name in sound])
    held = _by_siblings(own, standing) if standing else _by_publication(machine, cells, own)
    busy = {cell.cell.case for cell in cells if cell.busy}
    restless = {cell.cell.case for cell in cells if cell.restless}
    held = [
        replace(each, is_busy=measure.case in busy, is_restless=measure.case in restless)
        for measure, each in zip(own.values, held, strict=True)
    ]
    wrong = [cell for cell in cells if _is_wrong_here_alone(cell, kin)]
    cards = reported(cells)
    without = [cell for cell in cells if not cell.usable and not RULES[cell.verdict].is_inapplicable]
    return MachineAdvice(
        own.hardware,
        str(own.kind or ""),
        len(sound),
        tuple(name for name in kin if name not in sound),
        tuple(held),
        tuple(f"{c.cell.case.id} ({': '.join((verdict_text(c.verdict), *c.why[:1]))})" for c in without),
        tuple(cell.cell.case.id for cell in wrong),
        (*fatal(cards), *lost_driver(cells)),
        faults(cards, machine.devices),
    )


def _by_siblings(own: Member, standing: Mapping[Measure, Slowness]) -> list[Held]:
    held = []
    for measure in own.values:
        found = standing.get(measure)
        if found is None:
            held.append(Held(measure.name))
        else:
            against = f"{found.siblings} siblings"
            held.append(Held(measure.name, against, found.ratio, found.limit, found.chance, found.is_slow))
    return held


def _by_publication(machine: Machine, cells: Sequence[Repeats], own: Member) -> list[Held]:
    """Compare with published rates; only an interval shows slowness."""
    most_s = {cell.cell.case: longest_s(cell, machine) for cell in cells}
    times = {cell.cell.case: over_repeats(cell.compute_s) for cell in cells}
    held = []
    for measure in own.values:
        longest, time = most_s.get(measure.case), times.get(measure.case)
        if longest is None or time is None or measure.is_drift:
            held.append(Held(measure.name))
            continue
        low, high = (None if bound is None else bound / longest for bound in (time.low, time.high))
        ratio = Estimate(time.value / longest, low, high)
        held.append(Held(measure.name, PUBLISHED, ratio, 1.0, is_slow=low is not None and low > 1))
    return held


def _is_wrong_here_alone(cell: Repeats, kin: Mapping[str, Member]) -> bool:
    cases = {measure.case for member in kin.values() for measure in member.values}
    is_right_elsewhere = bool(cell.usable) or cell.cell.case in cases
    return is_right_elsewhere and any(record.verdict is Verdict.WRONG for record in cell.records)


def _value(held: Held) -> float:
    return held.ratio.value if held.ratio else 0.0


COPY_REACH = 0.7
"""Least share of the data sheet's bandwidth that a copy reaches. Stacked memory reaches 0.87 and more
(A100: kokkos/kokkos.github.io, carveout.pdf); cards with GDDR6 use part of it for check bits."""
CEILINGS = ("gemm", "matmul", "roof", "memory_bandwidth", "memory_read")
"""Workloads that only compute or move bytes, so that a card's rates predict their time."""


def longest_s(cell: Repeats, machine: Machine) -> float | None:
    """Return the longest time by the card's published rates; None if unknown or no ceiling's case.

    It is the longer of FLOPs' and bytes', at the least rates that products and copies reach.
    """
    case, work = cell.cell.case, next((r.work for r in cell.usable if r.work), None)
    if case.workload not in CEILINGS or work is None or not machine.peak_bytes_per_s:
        return None
    peak = dict(machine.peak_flops).get(case.precision)
    if work.flops and not (peak and machine.reach):
        return None
    computed_s = (work.flops or 0.0) / (peak * machine.reach) if peak and machine.reach else 0.0
    copied_s = (work.bytes or 0.0) / (machine.peak_bytes_per_s * COPY_REACH)
    return max(computed_s, copied_s) or None
