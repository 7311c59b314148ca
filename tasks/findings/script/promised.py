"""The largest rate of servers at promised latencies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import neg
from statistics import fmean

from tasks.results.billing import usd
from tasks.results.finding import Finding, Results
from tasks.results.format import format_estimate, listed, significant
from tasks.results.metrics import promised_of
from tasks.results.repeats import Repeats
from tasks.results.sessions import Sessions
from tasks.results.speedup import scaled
from tasks.results.summaries import over_repeats
from tasks.results.table import Column, Quantity, Table, Value
from tasks.results.values import Estimate
from tasks.results.wording import script_text
from workloads.harness.records.case import Case
from workloads.harness.records.intervals import t_quantile
from workloads.harness.records.program import PromisedRate

MILLION = 1e6
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Promise"),
    Column("Requests per second", Quantity.COUNT),
    Column("Output tokens per second", Quantity.COUNT),
    Column("Cost per million output tokens", Quantity.MONEY),
    Column("Repeats", Quantity.COUNT),
    Column("Limited by"),
)
LEAD = (
    "The largest rate of requests at which a server keeps its promised latencies, as our own load generator found it. "
    "An interval spans the rates that were shown to keep and to break a promise, the repeats, and the sessions of the "
    "machine. The price is of a machine that always has this rate. Machines whose intervals overlap are undecided."
)


@dataclass(frozen=True, slots=True)
class PromisedCell:
    """The searches on one machine, in valid repeats of a case.

    `requests_per_s`: missing if no rate keeps the promises; `tokens`: output tokens of a request.
    """

    repeats: Repeats
    searches: tuple[PromisedRate, ...]
    requests_per_s: Estimate | None
    tokens: float
    usd_per_hour: float | None

    @property
    def hardware(self) -> str:
        return self.repeats.cell.hardware

    @property
    def case(self) -> Case:
        return self.repeats.cell.case

    @property
    def limited_by(self) -> str:
        """Return a reason besides the server; else empty."""
        return next((search.limited_by for search in self.searches if search.limited_by), "")

    @property
    def million_usd(self) -> Estimate | None:
        rate, tokens, price = self.requests_per_s, self.tokens, self.usd_per_hour
        if rate is None or tokens <= 0 or not price:
            return None
        return rate.mapped(lambda per_s: usd(MILLION / (per_s * tokens), price))

    def row(self) -> tuple[Value, ...]:
        rate = self.requests_per_s
        return (
            self.hardware,
            script_text(self.case),
            ", ".join(self.searches[0].promises),
            rate,
            scaled(rate, self.tokens) if rate else None,
            self.million_usd,
            len(self.searches),
            self.limited_by or ("no rate keeps it" if rate is None else None),
        )


@dataclass(frozen=True, slots=True)
class PromisedRates(Finding):
    """The largest rate of every searched server."""

    name = "promised-rates"
    title = "Servers at a promised latency"
    section = "command"
    order = 1
    cells: tuple[PromisedCell, ...]

    @classmethod
    def find(cls, results: Results) -> "PromisedRates":
        prices = {machine.name: machine.usd_per_hour for machine in results.machines}
        cells = [
            PromisedCell(
                cell,
                searches,
                rate_of(searches, results.sessions, cell.cell.hardware),
                tokens_of(searches),
                prices.get(cell.cell.hardware),
            )
            for cell in results.reported
            if (searches := promised_of(cell))
        ]
        return cls(tuple(sorted(cells, key=lambda cell: cell.case.id)))

    def table(self) -> Table | None:
        return Table(COLUMNS, tuple(cell.row() for cell in self.cells), LEAD) if self.cells else None

    def headline(self) -> tuple[str, ...]:
        cases = [list(group) for _, group in groupby(self.cells, key=lambda cell: cell.case)]
        return tuple(_line(cells, len(cases) > 1) for cells in cases)

    def details(self) -> tuple[str, ...]:
        return (
            *(
                f"{cell.hardware} keeps {listed(cell.searches[0].promises)} of {script_text(cell.case)} at no rate."
                for cell in self.cells
                if cell.requests_per_s is None
            ),
            *(
                f"The rate of {script_text(cell.case)} on {cell.hardware} can be larger: {cell.limited_by}."
                for cell in self.cells
                if cell.requests_per_s and cell.limited_by
            ),
        )


def rate_of(searches: Sequence[PromisedRate], sessions: Sessions, hardware: str) -> Estimate | None:
    """Return None if any repeat found no rate.

    Its interval covers the repeats' and the rates shown to keep and to break a promise, without which it has
    no bounds. Sessions widen it.
    """
    rates = [search.requests_per_s for search in searches]
    if min(rates) <= 0:
        return None
    mean = over_repeats(rates)
    assert mean is not None
    lows, highs = [search.low for search in searches], [search.high for search in searches if search.high]
    low = [_mean(lows)] if min(lows) > 0 else []
    high = [_mean(highs)] if len(highs) == len(searches) else []
    low += [mean.low] if mean.low else []
    high += [mean.high] if mean.high else []
    if not (low and high):
        return replace(mean, low=None, high=None)
    effect = sessions.effects.get(hardware)
    wider = t_quantile(0.975, effect.freedom) * effect.cell if effect else 0.0
    sides = [abs(math.log(bound / mean.value)) for bound in (min(low), max(high))]
    below, above = (math.exp(math.hypot(side, wider)) for side in sides)
    return Estimate(mean.value, mean.value / below, mean.value * above)


def tokens_of(searches: Sequence[PromisedRate]) -> float:
    """Return the output tokens of a request; 0 without a rate."""
    found = [
        search.output_tokens_per_s / search.requests_per_s for search in searches if search.requests_per_s > 0
    ]
    return fmean(found) if found else 0.0


def _mean(rates: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, rates)))


def _line(cells: Sequence[PromisedCell], names_case: bool) -> str:
    promise = f"the promise{f' of {script_text(cells[0].case)}' if names_case else ''}"
    kept = {cell.hardware: cell for cell in cells if cell.requests_per_s}
    if not kept:
        return f"No machine keeps {promise} at any rate."
    costs = {name: cost for name, cell in kept.items() if (cost := cell.million_usd)}
    rates = {name: cell.requests_per_s.mapped(neg) for name, cell in kept.items() if cell.requests_per_s}
    scores = costs or rates
    best, *others = sorted(scores, key=lambda name: scores[name].value)
    head = f"{'Cheapest' if costs else 'Most'} at {promise}" if len(cells) > 1 else f"At {promise}"
    tied = [best, *(name for name in others if not scores[best].below(scores[name]))]
    if len(tied) == 1:
        return f"{head}: {best}, {_text(kept[best])}."
    if not costs:
        return f"{head}: undecided between {listed(tied)}."
    between = listed([f"{name} at {significant(costs[name].value, 2)} USD" for name in tied])
    return f"{head}: undecided between {between} per million output tokens."


def _text(cell: PromisedCell) -> str:
    rate, cost = cell.requests_per_s, cell.million_usd
    assert rate is not None
    if cost is None:
        return format_estimate(rate, " requests a second")
    tokens = f"{format_estimate(cost, ' USD')} per million output tokens"
    return f"{tokens} at {significant(rate.value, 3)} requests a second"
