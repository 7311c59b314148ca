"""Time against money: which machine, at which of its prices, is worth having at all."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tasks.findings.totals import Suite, total_seconds
from tasks.results.cost import SECONDS_PER_HOUR
from tasks.results.finding_types import Offer
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.speedup import scaled
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record

LISTED, SPOT = "listed", "spot"


def offers(suite: Suite, cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[Offer, ...]:
    """Every machine at every price: one pass through the suite's common cases, then a step of each case.

    A machine without a price above 0 makes no offer.
    """
    joules: dict[Case, dict[str, float]] = {}
    of_case: dict[Case, list[Repeats]] = {}
    for cell in cells:
        of_case.setdefault(cell.cell.case, []).append(cell)
        if (energy := step_energy_j(cell)) is not None:
            joules.setdefault(cell.cell.case, {})[cell.cell.hardware] = energy
    passes = _sum([joules.get(case, {}) for case in suite.cases])
    found = [*front(_priced(None, suite, machines, passes))]
    for case, same in of_case.items():
        found += front(_priced(case, Suite.of(same), machines, joules.get(case, {})))
    return tuple(found)


def front(rivals: Sequence[Offer]) -> tuple[Offer, ...]:
    """The offers for one and the same work, each with what beats it and what it can't be told from.

    Source: Pareto dominance, with intervals in place of points: see `dominates`.
    """
    return tuple(_placed(offer, rivals) for offer in rivals)


def dominates(one: Offer, other: Offer) -> bool:
    """Return whether one offer is shown to be better in time or in money, and the other in neither.

    Better is shown where the intervals do not overlap. A spot offer beats spot offers only, because spot
    capacity may be taken away. Between two prices of one machine the times are the same to the last digit.
    """
    if one.purchase == SPOT and other.purchase != SPOT:
        return False
    if one.hardware == other.hardware:
        return one.usd.value < other.usd.value
    ahead = one.seconds.below(other.seconds) or one.usd.below(other.usd)
    return ahead and not (other.seconds.below(one.seconds) or other.usd.below(one.usd))


def tied(one: Offer, other: Offer) -> bool:
    """Return whether neither time nor money tells two machines apart."""
    pairs = ((one.seconds, other.seconds), (one.usd, other.usd))
    return one.hardware != other.hardware and not any(a.below(b) or b.below(a) for a, b in pairs)


def step_energy_j(cell: Repeats) -> float | None:
    """Joules of one step, median over the usable repeats that measured it; None where none did."""
    found = [energy for energy in map(_energy_j, cell.usable) if energy is not None]
    return statistics.median(found) if found else None


def _energy_j(record: Record) -> float | None:
    """The window's energy over the steps in it."""
    if record.energy_j is None or record.wall is None or not record.wall.samples_s:
        return None
    return record.energy_j / (len(record.wall.samples_s) * record.wall.block)


def _sum(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By machine, where every case has one."""
    names = set(parts[0]).intersection(*parts[1:]) if parts else set()
    return {name: sum(part[name] for part in parts) for name in names}


def _priced(
    case: Case | None, suite: Suite, machines: Sequence[Machine], joules: Mapping[str, float]
) -> list[Offer]:
    """The offers for a suite, or for a case alone, which is a suite of one."""
    if not suite.cases:
        return []
    found = []
    for machine in machines:
        if machine.name not in suite.logs:
            continue
        seconds = total_seconds(suite, machine.name)
        for purchase, price in _prices(machine):
            usd = scaled(seconds, price / SECONDS_PER_HOUR)
            found.append(Offer(machine.name, purchase, case, seconds, usd, joules.get(machine.name)))
    return found


def _prices(machine: Machine) -> Iterable[tuple[str, float]]:
    both = ((LISTED, machine.usd_per_hour), (SPOT, machine.spot_usd_per_hour))
    return [(purchase, price) for purchase, price in both if price]


def _placed(offer: Offer, rivals: Sequence[Offer]) -> Offer:
    better = [rival for rival in rivals if dominates(rival, offer)]
    cheapest = min(better, key=lambda o: (o.usd.value, o.seconds.value, o.hardware), default=None)
    equal = {rival.hardware for rival in rivals if tied(rival, offer)}
    return replace(offer, dominated_by=cheapest.hardware if cheapest else "", tied_with=tuple(sorted(equal)))
