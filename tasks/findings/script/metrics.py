"""Numbers that commands report, with price and energy."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from tasks.findings.offers import LISTED, Offer, number_offers, standing
from tasks.results.billing import usd
from tasks.results.corrections import confidence_of_each
from tasks.results.finding import Finding, Results
from tasks.results.format import format_ratio, format_usd, listed
from tasks.results.metrics import (
    CALL,
    WORDS,
    call_s,
    called,
    has_ratio,
    is_of_time,
    mean,
    mean_text,
    metrics_of,
    promised_of,
    series_case,
)
from tasks.results.repeats import Repeats
from tasks.results.sessions import Sessions
from tasks.results.speedup import corrected, scaled, speedup
from tasks.results.summaries import over_repeats
from tasks.results.table import Column, Mark, Quantity, Table, Value
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import script_text
from workloads.harness.records.case import Case
from workloads.harness.records.intervals import ratio_interval, ratio_p
from workloads.harness.records.program import Better, MetricValue

MILLION = 1e6
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Number"),
    Column("Value", Quantity.COUNT),
    Column("Unit"),
    Column("Better"),
    Column("Repeats", Quantity.COUNT),
    Column("As good as the baseline", Quantity.RATIO),
    Column("Minus the baseline", Quantity.COUNT),
    Column("Verdict", Quantity.VERDICT),
    Column("Cost per million", Quantity.MONEY),
    Column("Cost per call", Quantity.MONEY),
    Column("Energy per unit", Quantity.ENERGY),
    Column("Energy per call", Quantity.ENERGY),
    Column("Standing", Quantity.VERDICT),
)
LEAD = (
    "Numbers as the commands reported them, which nothing checks, over the repeats. A ratio above 1 is better, whether "
    "higher or lower numbers are. Percentages, and numbers of 0 or less, are compared by their difference. The "
    "cost per million is of the thing that a rate per second counts, at the price of a machine that is never idle; the "
    "cost per call is of the whole call. The energy per unit is that of the call, shared by the units of the rate in "
    "its time. The standing is that of the first number and its cost. Verdicts are corrected for the number of "
    "comparisons, intervals are not."
)


@dataclass(frozen=True, slots=True)
class CellMetric:
    """A metric of one cell.

    Attributes:
        reported: of each valid repeat.
        ratio: above 1 is better than the baseline.
        factor: times the log of a difference's ratio; None if the numbers have a ratio.
    """

    repeats: Repeats
    reported: tuple[MetricValue, ...]
    usd_per_hour: float | None
    ratio: Ratio | None = None
    factor: float | None = None

    @property
    def metric(self) -> MetricValue:
        return self.reported[0]

    @property
    def id(self) -> str:
        return series_case(self.repeats.cell.case.id, self.metric)

    @property
    def numbers(self) -> list[float]:
        return [metric.value for metric in self.reported]

    @property
    def hardware(self) -> str:
        return self.repeats.cell.hardware

    @property
    def difference(self) -> Estimate | None:
        """Return the number minus the baseline's, if they have no ratio."""
        factor = self.factor
        if self.ratio is None or factor is None:
            return None
        return self.ratio.estimate.mapped(lambda ratio: factor * math.log(ratio))

    @property
    def unit_usd(self) -> Estimate | None:
        if not self.metric.thing or self.usd_per_hour is None or not has_ratio(self.reported):
            return None
        seconds = over_repeats([1 / number for number in self.numbers])
        return scaled(seconds, usd(1.0, self.usd_per_hour)) if seconds else None

    @property
    def call_usd(self) -> Estimate | None:
        seconds = over_repeats(called(self.repeats).compute_s)
        return (
            scaled(seconds, usd(1.0, self.usd_per_hour))
            if seconds and self.usd_per_hour is not None
            else None
        )

    @property
    def call_j(self) -> Estimate | None:
        return over_repeats([record.energy_j for record in self.repeats.usable if record.energy_j])

    @property
    def unit_j(self) -> Estimate | None:
        if not self.metric.thing or not has_ratio(self.reported):
            return None
        reported = (
            (record.energy_j, call_s(record), each.value)
            for record in self.repeats.usable
            for each in record.metrics
            if each == replace(self.metric, value=each.value)
        )
        return over_repeats(
            [joules / seconds / rate for joules, seconds, rate in reported if joules and seconds]
        )

    def row(self, offer: Offer | None = None) -> tuple[Value, ...]:
        """Return a row with the rank `offer`."""
        ratio = self.ratio if self.factor is None else None
        return (
            self.hardware,
            script_text(self.repeats.cell.case),
            self.metric.name,
            mean(self.reported),
            self.metric.unit,
            self.metric.better.value,
            len(self.numbers),
            ratio,
            self.difference,
            Mark(WORDS[self.ratio.outcome], self.ratio.outcome) if self.ratio else None,
            scaled(self.unit_usd, MILLION) if self.unit_usd else None,
            self.call_usd,
            self.unit_j,
            self.call_j,
            Mark(standing(offer), None if offer.dominated_by else RatioVerdict.FASTER) if offer else None,
        )


@dataclass(frozen=True, slots=True)
class Metrics(Finding):
    """Commands' metrics by case, the baseline first."""

    name = "metrics"
    title = "Numbers of your commands"
    section = "command"
    order = 2
    cells: tuple[CellMetric, ...]
    sessions: Sessions
    offers: tuple[Offer, ...] = ()

    @classmethod
    def find(cls, results: Results) -> "Metrics":
        prices = {machine.name: machine.usd_per_hour for machine in results.machines}
        reported = [
            CellMetric(cell, metrics, prices.get(cell.cell.hardware))
            for cell in results.reported
            for metrics in metrics_of(cell)
        ]
        order = {key: place for place, key in enumerate(dict.fromkeys(map(_key, reported)))}
        reported.sort(key=lambda each: (order[_key(each)], each.hardware != results.baseline))
        base = {_key(each): each for each in reported if each.hardware == results.baseline}
        paired = [_paired(base.get(_key(each)), each, results.sessions) for each in reported]
        ratios = corrected([each.ratio for each in paired])
        found = tuple(replace(each, ratio=ratio) for each, ratio in zip(paired, ratios, strict=True))
        by_case: dict[Case, list[Repeats]] = {}
        for cell in results.reported:
            by_case.setdefault(cell.cell.case, []).append(cell)
        offers = (number_offers(cells, results.machines, results.sessions) for cells in by_case.values())
        return cls(found, results.sessions, tuple(chain.from_iterable(offers)))

    def table(self) -> Table | None:
        listed = {(o.hardware, o.case.id): o for o in self.offers if o.case and o.purchase == LISTED}
        rows = (cell.row(listed.get((cell.hardware, cell.id))) for cell in self.cells)
        return Table(COLUMNS, tuple(rows), LEAD) if self.cells else None

    def headline(self) -> tuple[str, ...]:
        """Give a server at a promised latency its own line."""
        groups = (group for _, group in self._by_metric(first=True))
        return tuple(
            line for group in groups if not promised_of(group[0].repeats) for line in self._lines(group)
        )

    def details(self) -> tuple[str, ...]:
        return tuple(line for _, group in self._by_metric(first=False) for line in self._lines(group))

    def _by_metric(self, first: bool) -> Iterator[tuple[object, list[CellMetric]]]:
        seen: set[Case] = set()
        for key, group in groupby(self.cells, _key):
            is_first = key[0] not in seen
            seen.add(key[0])
            if is_first is first and key[1] != CALL.name:
                yield key, [*group]

    def _lines(self, cells: Sequence[CellMetric]) -> list[str]:
        what = f"{cells[0].metric.name} of {script_text(cells[0].repeats.cell.case)}"
        alike = dict.fromkeys(map(_hardware, cells), 1.0)
        lines = [f"{'Best ' if len(cells) > 1 else ''}{what}: {self._best(cells, alike)}."]
        prices = {cell.hardware: cell.usd_per_hour for cell in cells if cell.usd_per_hour}
        priced = [cell for cell in cells if cell.hardware in prices]
        if len(priced) > 1 and all(cell.unit_usd for cell in priced):
            lines.append(f"Cheapest by {what}: {self._best(priced, prices)}.")
        return lines

    def _best(self, cells: Sequence[CellMetric], weights: Mapping[str, float]) -> str:
        is_cost = any(weight != 1.0 for weight in weights.values())
        factor = _factor(cells)
        scores = {cell.hardware: _scores(cell, factor) for cell in cells}
        logs = {
            name: statistics.fmean(map(math.log, of)) + math.log(weights[name]) for name, of in scores.items()
        }
        best, *others = sorted(logs, key=lambda name: logs[name])
        shown = next(cell for cell in cells if cell.hardware == best)
        price = shown.unit_usd if is_cost else None
        text = mean_text(shown.reported)
        if price:
            text = f"{format_usd(scaled(price, MILLION))} per million {shown.metric.thing}"
        if not others:
            return f"{best}, {text}"
        choices = len(weights) * (len(weights) - 1) // 2
        chances = {
            name: ratio_p(
                scores[name],
                scores[best],
                weights[name] / weights[best],
                _added(cells[0], self.sessions, name, best),
            )
            for name in others
        }
        tied = [name for name, p in chances.items() if p is None or p > 1 - confidence_of_each(choices)]
        if tied:
            return f"undecided between {listed([best, *tied])}"
        lead = ratio_interval(
            scores[others[0]],
            scores[best],
            confidence_of_each(choices),
            _added(cells[0], self.sessions, others[0], best),
        )
        if lead is None or factor is not None:
            return f"{best}, {text}, before {others[0]}"
        ratio = scaled(Estimate.of(lead), weights[others[0]] / weights[best])
        return f"{best}, {text}, {format_ratio(ratio)} as good as {others[0]}"


def _hardware(cell: CellMetric) -> str:
    return cell.hardware


def _key(cell: CellMetric) -> tuple[Case, str, str, Better]:
    return cell.repeats.cell.case, cell.metric.name, cell.metric.unit, cell.metric.better


def _paired(base: CellMetric | None, side: CellMetric, sessions: Sessions) -> CellMetric:
    if base is None or base is side:
        return side
    factor = _factor([base, side])
    added = _added(side, sessions, base.hardware, side.hardware)
    return replace(
        side,
        ratio=speedup(_scores(base, factor), _scores(side, factor), added),
        factor=factor and _signed(side, factor),
    )


def _signed(cell: CellMetric, factor: float) -> float:
    return factor if cell.metric.better is Better.HIGHER else -factor


def _added(cell: CellMetric, sessions: Sessions, over: str, under: str) -> tuple[tuple[float, float], ...]:
    """Return sessions' effects on times and rates; other numbers can be the same in all."""
    return sessions.of_cell(over, under) if is_of_time(cell.metric) else ()


def _factor(cells: Sequence[CellMetric]) -> float | None:
    """Return the size of numbers compared by difference; None if they have ratios."""
    if all(has_ratio(cell.reported) for cell in cells):
        return None
    return max(abs(number) for cell in cells for number in cell.numbers) or 1.0


def _scores(cell: CellMetric, factor: float | None) -> list[float]:
    """Return positive numbers, smaller is better."""
    sign = -1 if cell.metric.better is Better.HIGHER else 1
    if factor is None:
        return [number**sign for number in cell.numbers]
    return [math.exp(sign * number / factor) for number in cell.numbers]
