"""Time and cost of each machine at each price."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from tasks.findings.claims import sessions_of_number
from tasks.findings.totals import CommonCases, time_ratio, total_seconds
from tasks.results.billing import usd
from tasks.results.corrections import confidence_of_each
from tasks.results.cost import cost_words
from tasks.results.finding import Finding, Results
from tasks.results.metrics import called, is_rate, metric_in, one_number
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.sessions import Sessions
from tasks.results.speedup import scaled
from tasks.results.summaries import median_or_none
from tasks.results.table import Column, Mark, Quantity, Table, Value
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import provisional_text
from workloads.harness.records.case import Case
from workloads.harness.records.energy import energy_of

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
    """A machine at one of its prices.

    Attributes:
        case: None for one pass of the suite.
        purchase: `listed` or `spot`.
        seconds, usd: of one step or pass; of a command's number its `cost_of`, and of a rate's unit or a
            call.
        energy_j: of one step.
        dominated_by: better in one and not worse in the other; empty on the Pareto front.
        tied_with: not distinguished from it.
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
"""Return the ratios of one offer over another, in time and in cost."""


@dataclass(frozen=True, slots=True)
class Offers(Finding):
    """Time and cost of suite and cases, at every price.

    Attributes:
        prices: USD per hour by machine and purchase.
        efficiency: over the baseline by machine and case, at listed prices.
        provisional: why an idle machine can give other offers; else empty.
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
        suite = CommonCases.of(results.suite_cells, results.sessions)
        return cls(
            offers(suite, results.cells, results.machines),
            {(m.name, purchase): price for m in results.machines for purchase, price in _prices(m)},
            {(p.hardware, p.case): p.cost for p in results.pairings if p.cost},
            suite.provisional,
        )

    @property
    def of_suite(self) -> list[Offer]:
        """Return the suite's offers, the cheapest first."""
        whole = (offer for offer in self.offers if offer.case is None)
        return sorted(whole, key=lambda offer: offer.usd.value)

    def table(self) -> Table | None:
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
    """Return such as `on the Pareto front` or `beaten by gke-l4`."""
    if offer.dominated_by:
        return f"beaten by {offer.dominated_by}"
    ties = f", tied with {' and '.join(offer.tied_with)}" if offer.tied_with else ""
    return f"on the Pareto front{ties}"


def passes_of(offers: Sequence[Offer]) -> int:
    """Return the passes for which the most expensive offer is above a cent."""
    dearest = max((offer.usd.value for offer in offers), default=0.0)
    return next((passes for passes in _PASSES if dearest * passes >= 0.01), _PASSES[-1])


def offers(suite: CommonCases, cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[Offer, ...]:
    joules: dict[Case, dict[str, float]] = {}
    of_case: dict[Case, list[Repeats]] = {}
    for cell in cells:
        of_case.setdefault(cell.cell.case, []).append(cell)
        if (energy := step_energy_j(cell)) is not None:
            joules.setdefault(cell.cell.case, {})[cell.cell.hardware] = energy
    parts = [joules.get(case, {}) for case in suite.cases]
    common = set(parts[0]).intersection(*parts[1:]) if parts else set()
    passes = {name: sum(part[name] for part in parts) for name in common}
    found = [*front(_priced(None, suite, machines, passes), over_in(suite, machines))]
    for case, same in of_case.items():
        alone = CommonCases.of(same, suite.sessions)
        found += front(_priced(case, alone, machines, joules.get(case, {})), over_in(alone, machines))
    return tuple(found)


def front(rivals: Sequence[Offer], over: Over) -> tuple[Offer, ...]:
    """Return offers for the same work, each with those that beat it or tie.

    Pareto dominance with intervals: see `dominates`.
    """
    offers = []
    for offer in rivals:
        better = [rival for rival in rivals if dominates(rival, offer, over)]
        best = min(better, key=lambda o: (o.usd.value, o.seconds.value, o.hardware), default=None)
        equal = {rival.hardware for rival in rivals if tied(rival, offer, over)}
        beaten_by = best.hardware if best else ""
        offers.append(replace(offer, dominated_by=beaten_by, tied_with=tuple(sorted(equal))))
    return tuple(offers)


def dominates(one: Offer, other: Offer, over: Over) -> bool:
    """Return whether one is better in time or cost, and the other in neither.

    The interval of the ratio must exclude 1. A spot offer beats only spot offers, because it can be
    preempted. Two prices of one machine have the same time.
    """
    if one.purchase == SPOT and other.purchase != SPOT:
        return False
    if one.hardware == other.hardware:
        return one.usd.value < other.usd.value
    return any(map(_below_1, over(one, other))) and not any(map(_below_1, over(other, one)))


def tied(one: Offer, other: Offer, over: Over) -> bool:
    ratios = (*over(one, other), *over(other, one))
    return one.hardware != other.hardware and not any(map(_below_1, ratios))


def over_in(suite: CommonCases, machines: Sequence[Machine], paid: CommonCases | None = None) -> Over:
    """Return a function for the ratios of two offers; `paid` has the times that cost, if others.

    Intervals are simultaneous, so that no equal machine leaves the front by chance.
    """
    confidence = confidence_of_each(math.comb(len(suite.logs), 2))
    price = {(m.name, purchase): usd for m in machines for purchase, usd in _prices(m)}

    @cache
    def of_times(one: str, other: str) -> tuple[Estimate, Estimate]:
        times = time_ratio(suite, one, other, confidence)
        return times, time_ratio(paid, one, other, confidence) if paid else times

    def over(one: Offer, other: Offer) -> tuple[Estimate, Estimate]:
        times, paid_times = of_times(one.hardware, other.hardware)
        dearer = price[one.hardware, one.purchase] / price[other.hardware, other.purchase]
        return times, scaled(paid_times, dearer)

    return over


def step_energy_j(cell: Repeats) -> float | None:
    """Return the median of usable repeats."""
    return median_or_none(energy.step_j for record in cell.usable if (energy := energy_of(record)))


def number_offers(
    cells: Sequence[Repeats], machines: Sequence[Machine], sessions: Sessions
) -> tuple[Offer, ...]:
    """Return offers for the first number of the cells' command.

    Cost is of a unit of a rate per second, or of a whole call.
    """
    views = one_number(cell for cell in cells if cell.has_metrics)
    case = views[0].cell.case
    metric = metric_in(case.id)
    if metric is None:
        return ()
    alike = [view for view in views if view.cell.case == case]
    suite = CommonCases.of(alike, sessions_of_number(case, sessions))
    paid = suite if is_rate(metric) else CommonCases.of([*map(called, cells)], sessions)
    return (
        front(_priced(case, suite, machines, {}, paid), over_in(suite, machines, paid)) if paid.cases else ()
    )


def _priced(
    case: Case | None,
    suite: CommonCases,
    machines: Sequence[Machine],
    joules: Mapping[str, float],
    paid: CommonCases | None = None,
) -> list[Offer]:
    found, paid = [], paid or suite
    for machine in machines:
        if suite.cases and machine.name in suite.logs and machine.name in paid.logs:
            seconds = total_seconds(suite, machine.name)
            for purchase, price in _prices(machine):
                cost = scaled(total_seconds(paid, machine.name), usd(1.0, price))
                found.append(Offer(machine.name, purchase, case, seconds, cost, joules.get(machine.name)))
    return found


def _prices(machine: Machine) -> Iterable[tuple[str, float]]:
    both = ((LISTED, machine.usd_per_hour), (SPOT, machine.spot_usd_per_hour))
    return [(purchase, price) for purchase, price in both if price]


def _below_1(ratio: Estimate) -> bool:
    return ratio.high is not None and ratio.high < 1
