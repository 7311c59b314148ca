"""Time against money: which machine, at which of its prices, is worth having at all."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from tasks.findings.totals import CommonCases, time_ratio, total_seconds
from tasks.results.billing import usd
from tasks.results.cost import cost_words
from tasks.results.finding import Finding, Results
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.speedup import scaled
from tasks.results.table import Column, Mark, Quantity, Table, Value
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import provisional_text
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record

LISTED, SPOT = "listed", "spot"
_PASSES = (1, 1_000, 1_000_000)
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Work"),
    Column("Purchase"),
    Column("Price", Quantity.PRICE),
    Column("Time", Quantity.TIME),
    Column("Energy", Quantity.ENERGY),
    Column("Cost efficiency", Quantity.RATIO),
    Column("Verdict", Quantity.VERDICT),
    Column("Standing", Quantity.VERDICT),
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine at one of its prices, as a point of time against money.

    Attributes:
        case: what is weighed; None for one pass through the suite's common cases.
        purchase: `listed` for the machine's own price, `spot` for spot capacity.
        seconds, usd: of one step, or of one pass through the suite.
        energy_j: of one step, where it was measured.
        dominated_by: a machine that is better in one and no worse in the other; empty on the Pareto front.
        tied_with: machines that can't be told from it in time nor money.
    """

    hardware: str
    purchase: str
    case: Case | None
    seconds: Estimate
    usd: Estimate
    energy_j: float | None = None
    dominated_by: str = ""
    tied_with: tuple[str, ...] = ()


Over = Callable[[Offer, Offer], tuple[Estimate, Estimate]]
"""The ratios of one offer over another, in time and in money."""


@dataclass(frozen=True, slots=True)
class Offers(Finding):
    """Every machine at every price: the time and the cost of the suite, and of each case.

    Attributes:
        prices: USD per hour by machine and purchase.
        efficiency: cost efficiency over the baseline by machine and case, at listed prices.
        provisional: why a quiet machine may give other offers for the suite, in words; empty where none may.
    """

    name = "offers"
    title = "Offers for one pass through the suite"
    artifact = "bench-cost"
    section = "money"
    order = 60
    offers: tuple[Offer, ...]
    prices: Mapping[tuple[str, str], float] = field(default_factory=dict)
    efficiency: Mapping[tuple[str, Case], Ratio] = field(default_factory=dict)
    provisional: str = ""

    @classmethod
    def find(cls, results: Results) -> "Offers":
        """Price the suite and every case on every machine."""
        suite = CommonCases.of(results.suite_cells)
        return cls(
            offers(suite, results.cells, results.machines),
            {(m.name, purchase): price for m in results.machines for purchase, price in _prices(m)},
            {(p.hardware, p.case): p.cost for p in results.pairings if p.cost},
            suite.provisional,
        )

    @property
    def of_suite(self) -> list[Offer]:
        """Return the offers for one pass through the suite, the cheapest first."""
        whole = (offer for offer in self.offers if offer.case is None)
        return sorted(whole, key=lambda offer: offer.usd.value)

    def table(self) -> Table | None:
        """Return a row an offer: the suite's first, which people see, then those of each case."""
        suite = self.of_suite
        rows = [*suite, *(offer for offer in self.offers if offer.case is not None)]
        passes = passes_of(suite or rows)
        cost = f"Cost of {passes:,} passes" if passes > 1 else "Cost"
        columns = (*COLUMNS[:5], Column(cost, Quantity.MONEY), *COLUMNS[5:])
        if not rows:
            return None
        notes = tuple(filter(None, [provisional_text(self.provisional) if suite else ""]))
        return Table(columns, tuple(self._row(o, passes) for o in rows), notes=notes, brief=len(suite))

    def published(self) -> dict[str, Any]:
        """Return `offers`, each with the id of its case."""
        return {"offers": [asdict(o) | {"case": o.case.id if o.case else None} for o in self.offers]}

    def _row(self, offer: Offer, passes: int) -> tuple[Value, ...]:
        ratio = self.efficiency.get((offer.hardware, offer.case)) if offer.case else None
        ratio = ratio if offer.purchase == LISTED else None
        return (
            offer.hardware,
            offer.case.id if offer.case else "one pass through the suite",
            offer.purchase,
            self.prices.get((offer.hardware, offer.purchase)),
            offer.seconds,
            scaled(offer.usd, passes),
            offer.energy_j,
            ratio,
            Mark(cost_words(ratio), ratio.outcome) if ratio else None,
            Mark(standing(offer), None if offer.dominated_by else RatioVerdict.FASTER),
        )


def standing(offer: Offer) -> str:
    """Return the worth of an offer: such as `on the Pareto front` or `beaten by gke-l4`."""
    if offer.dominated_by:
        return f"beaten by {offer.dominated_by}"
    ties = f", tied with {' and '.join(offer.tied_with)}" if offer.tied_with else ""
    return f"on the Pareto front{ties}"


def passes_of(offers: Sequence[Offer]) -> int:
    """Return the number of passes for which to state the cost, so that the dearest offer is above a cent."""
    dearest = max((offer.usd.value for offer in offers), default=0.0)
    return next((passes for passes in _PASSES if dearest * passes >= 0.01), _PASSES[-1])


def offers(suite: CommonCases, cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[Offer, ...]:
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
    matches = [*front(_priced(None, suite, machines, passes), over_in(suite, machines))]
    for case, same in of_case.items():
        alone = CommonCases.of(same)
        matches += front(_priced(case, alone, machines, joules.get(case, {})), over_in(alone, machines))
    return tuple(matches)


def front(rivals: Sequence[Offer], over: Over) -> tuple[Offer, ...]:
    """The offers for one and the same work, each with what beats it and what it can't be told from.

    Source: Pareto dominance, with intervals in place of points: see `dominates`.
    """
    return tuple(_placed(offer, rivals, over) for offer in rivals)


def dominates(one: Offer, other: Offer, over: Over) -> bool:
    """Return whether one offer is shown to be better in time or in money, and the other in neither.

    Better is shown where the interval of the ratio excludes 1, as in the answer: two intervals may overlap
    and yet be told apart. A spot offer beats spot offers only, because spot capacity may be taken away.
    Between two prices of one machine the times are the same to the last digit.
    """
    if one.purchase == SPOT and other.purchase != SPOT:
        return False
    if one.hardware == other.hardware:
        return one.usd.value < other.usd.value
    return any(map(_below_1, over(one, other))) and not any(map(_below_1, over(other, one)))


def tied(one: Offer, other: Offer, over: Over) -> bool:
    """Return whether neither time nor money tells two machines apart."""
    ratios = (*over(one, other), *over(other, one))
    return one.hardware != other.hardware and not any(map(_below_1, ratios))


def over_in(suite: CommonCases, machines: Sequence[Machine]) -> Over:
    """Return what gives the ratios of two offers for this suite."""
    price = {(m.name, purchase): usd for m in machines for purchase, usd in _prices(m)}

    @cache
    def of_times(one: str, other: str) -> Estimate:
        return time_ratio(suite, one, other)

    def over(one: Offer, other: Offer) -> tuple[Estimate, Estimate]:
        times = of_times(one.hardware, other.hardware)
        dearer = price[one.hardware, one.purchase] / price[other.hardware, other.purchase]
        return times, scaled(times, dearer)

    return over


def step_energy_j(cell: Repeats) -> float | None:
    """Joules of one step, median over the usable repeats that measured it; None where none did."""
    matches = [energy for energy in map(_energy_j, cell.usable) if energy is not None]
    return statistics.median(matches) if matches else None


def _energy_j(record: Record) -> float | None:
    """The window's energy over the steps in it, of which those that settle a GPU are in no sample."""
    if record.energy_j is None or record.wall is None or not record.wall.samples_s:
        return None
    steps = record.probes.get("window_steps", 0.0)
    return record.energy_j / (steps if steps >= 1 else record.wall.timed_steps)


def _sum(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By machine, where every case has one."""
    names = set(parts[0]).intersection(*parts[1:]) if parts else set()
    return {name: sum(part[name] for part in parts) for name in names}


def _priced(
    case: Case | None, suite: CommonCases, machines: Sequence[Machine], joules: Mapping[str, float]
) -> list[Offer]:
    """The offers for a suite, or for a case alone, which is a suite of one."""
    if not suite.cases:
        return []
    matches = []
    for machine in machines:
        if machine.name not in suite.logs:
            continue
        seconds = total_seconds(suite, machine.name)
        for purchase, price in _prices(machine):
            cost = scaled(seconds, usd(1.0, price))
            matches.append(Offer(machine.name, purchase, case, seconds, cost, joules.get(machine.name)))
    return matches


def _prices(machine: Machine) -> Iterable[tuple[str, float]]:
    both = ((LISTED, machine.usd_per_hour), (SPOT, machine.spot_usd_per_hour))
    return [(purchase, price) for purchase, price in both if price]


def _below_1(ratio: Estimate) -> bool:
    return ratio.high is not None and ratio.high < 1


def _placed(offer: Offer, rivals: Sequence[Offer], over: Over) -> Offer:
    better = [rival for rival in rivals if dominates(rival, offer, over)]
    cheapest = min(better, key=lambda o: (o.usd.value, o.seconds.value, o.hardware), default=None)
    equal = {rival.hardware for rival in rivals if tied(rival, offer, over)}
    return replace(offer, dominated_by=cheapest.hardware if cheapest else "", tied_with=tuple(sorted(equal)))
