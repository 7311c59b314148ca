"""All cards of a machine at once: rate, power and heat."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_percent
from tasks.results.repeats import Repeats
from tasks.results.summaries import over_repeats
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate
from workloads.harness.records.parts import Rank
from workloads.harness.records.text import rate_text

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Device"),
    Column("Rate"),
    Column("Time per step", Quantity.TIME),
    Column("Speed relative to the fastest", Quantity.SHARE),
    Column("Speed relative to itself alone", Quantity.SHARE),
    Column("Power, W", Quantity.COUNT),
    Column("Highest temperature, °C", Quantity.COUNT),
    Column("Clock, MHz", Quantity.COUNT),
    Column("Held down for power", Quantity.SHARE),
    Column("Held down for heat", Quantity.SHARE),
)
FAR_BEHIND = 0.9
"""Below this share of the fastest card's speed huggingface/gpu-fryer calls a card bad (`--tflops-tolerance 10`)."""


@dataclass(frozen=True, slots=True)
class Card:
    """One of several devices that computed at once.

    Attributes:
        step_s: without waiting for the others.
        of_alone: its speed over its own while the others waited.
        readings: means over repeats; the highest temperature.
    """

    hardware: str
    case: str
    number: int
    device: str
    flops: float
    step_s: Estimate
    of_fastest: Estimate
    of_alone: Estimate | None
    readings: dict[str, float]

    @property
    def rate(self) -> str:
        return rate_text(self.flops / self.step_s.value, "FLOP/s") if self.flops else ""


@dataclass(frozen=True, slots=True)
class CardsAtOnce(Finding):
    """The devices of each machine that computed the same at once."""

    name = "cards_at_once"
    title = "All cards at once"
    section = "machines"
    order = 6
    cards: tuple[Card, ...]

    @classmethod
    def find(cls, results: Results) -> "CardsAtOnce":
        return cls(tuple(card for cell in results.cells for card in _cards(cell)))

    def table(self) -> Table | None:
        rows = tuple(
            (
                card.hardware,
                card.case,
                card.device,
                card.rate,
                card.step_s,
                card.of_fastest,
                card.of_alone,
                _whole(card.readings.get("gpu_power_w")),
                _whole(card.readings.get("gpu_temperature_c")),
                _whole(card.readings.get("gpu_sm_clock_mhz")),
                card.readings.get("power_throttled_share"),
                card.readings.get("thermal_throttled_share"),
            )
            for card in self.cards
        )
        lead = (
            "Each device computed the same product at once, by its own process. "
            "All began each block of steps together, so that a fast one waited for the slowest at its end."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def observations(self) -> tuple[str, ...]:
        cells = dict.fromkeys((card.hardware, card.case) for card in self.cards)
        return tuple(
            _sentence([card for card in self.cards if (card.hardware, card.case) == key]) for key in cells
        )


def _sentence(cards: Sequence[Card]) -> str:
    slowest, first = min(cards, key=lambda card: card.of_fastest.value), cards[0]
    rate = sum(card.flops / card.step_s.value for card in cards)
    text = (
        f"At once: the {len(cards)} devices of {first.hardware} reach {rate_text(rate, 'FLOP/s')} together at "
        f"{first.case}; {slowest.device} is the slowest, with {format_percent(slowest.of_fastest)} of the speed of the "
        "fastest"
    )
    if (slowest.of_fastest.high or slowest.of_fastest.value) < FAR_BEHIND:
        text += f", less than the {FAR_BEHIND:.0%} that gpu-fryer asks for"
    shares = [card.of_alone for card in cards if card.of_alone]
    if shares:
        least = min(shares, key=lambda share: share.value)
        text += f"; each keeps at least {format_percent(least)} of the speed that it has alone"
    return f"{text}."


def _cards(cell: Repeats) -> list[Card]:
    """Return none unless each process was measured alone in a usable repeat."""
    groups = [(record, record.group.ranks) for record in cell.usable if record.group]
    groups = [
        (record, ranks) for record, ranks in groups if all(rank.alone_s and rank.mean_s for rank in ranks)
    ]
    if not groups or len({len(ranks) for _, ranks in groups}) > 1:
        return []
    work, found = groups[0][0].work, []
    for place, rank in enumerate(groups[0][1]):
        own = [ranks[place] for _, ranks in groups]
        fastest = [min(_mean_s(each) for each in ranks) for _, ranks in groups]
        step_s = over_repeats([_mean_s(each) for each in own])
        of_fastest = over_repeats([best / _mean_s(each) for best, each in zip(fastest, own, strict=True)])
        assert step_s and of_fastest
        found.append(
            Card(
                cell.cell.hardware,
                cell.cell.case.id,
                rank.rank,
                rank.device,
                (work.flops or 0.0) / len(groups[0][1]) if work else 0.0,
                step_s,
                of_fastest,
                over_repeats([(each.alone_s or math.nan) / _mean_s(each) for each in own]),
                _readings(own),
            )
        )
    return found


def _mean_s(rank: Rank) -> float:
    return rank.mean_s or rank.median_s


def _readings(repeats: Sequence[Rank]) -> dict[str, float]:
    names = dict.fromkeys(name for rank in repeats for name in rank.probes)
    columns = {name: [rank.probes[name] for rank in repeats if name in rank.probes] for name in names}
    return {
        name: max(values) if name == "gpu_temperature_c" else statistics.fmean(values)
        for name, values in columns.items()
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
