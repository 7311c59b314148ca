"""The parts of a step, computing and waiting, which split ratios of times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from workloads.harness.records.record import Record

NOTABLE = 0.05  # a part that changes the ratio by less is not named
WAITS = ("host", "loader", "exchange")
ADVICE = {
    "host": "CUDA graphs, torch.compile, a larger batch or a faster CPU would shorten the wait",
    "loader": "more loader workers, a faster CPU or data that is decoded already would shorten the wait",
    "exchange": "a faster link between the cards or a larger batch per card would shorten it",
}


@dataclass(frozen=True, slots=True)
class StepParts:
    """The mean parts of a step over repeats, in seconds.

    Attributes:
        device: the device computes; `exchange`: it exchanges gradients with others.
        loader: it waits for the data loader; `host`: for anything else of its host.
    """

    device: float
    host: float
    loader: float = 0.0
    exchange: float = 0.0

    @property
    def step_s(self) -> float:
        return self.device + self.host + self.loader + self.exchange

    def scaled(self, factor: float) -> "StepParts":
        return StepParts(*(factor * part for part in (self.device, self.host, self.loader, self.exchange)))

    @property
    def waiting_share(self) -> float:
        return (self.host + self.loader) / self.step_s

    @property
    def exchange_share(self) -> float:
        return self.exchange / self.step_s


def card_s(records: Sequence[Record]) -> list[float]:
    """Return each record's seconds per step in which a device computes, by passes without waiting."""
    return [_without_exchange_s(r, r.device_busy_s) for r in records if r.device_busy_s and r.mean_s]


def cards_s(before: Sequence[Record], after: Sequence[Record]) -> tuple[list[float], list[float]] | None:
    sides = card_s(before), card_s(after)
    return sides if all(side and min(side) > 0 for side in sides) else None


def step_parts(records: Sequence[Record], without_loader_s: float | None = None) -> StepParts | None:
    """Return the mean parts of a step over a cell's repeats, if known.

    `without_loader_s` is the time of the same step with its data in place; None if the case has no loader.
    """
    known = [record for record in records if record.device_busy_s and record.mean_s]
    if not known:
        return None
    step_s = fmean(record.mean_s or 0.0 for record in known)
    device_s = fmean(_without_exchange_s(record, record.device_s or 0.0) for record in known)
    exchange_s = fmean(map(_exchange_share, known)) * step_s
    waiting_s = max(step_s - device_s - exchange_s, 0.0)
    loader_s = min(max(step_s - without_loader_s, 0.0), waiting_s) if without_loader_s else 0.0
    return StepParts(device_s, waiting_s - loader_s, loader_s, exchange_s)


def job_parts(batch_s: float, alone: StepParts) -> StepParts:
    """Return the parts of a batch of `batch_s` seconds; `loader` includes copies to the device."""
    computation = alone.scaled(min(batch_s / alone.step_s, 1.0))
    return replace(computation, loader=max(batch_s - computation.step_s, 0.0))


def card_gap(ratio: float, by_card: float) -> float:
    return abs(math.log(ratio / by_card))


def is_cards(ratio: float, by_card: float) -> bool:
    return card_gap(ratio, by_card) <= NOTABLE


def decided_by(before: StepParts, after: StepParts) -> str:
    parts = ("device", *WAITS)
    change = math.copysign(1, before.step_s - after.step_s)
    return max(parts, key=lambda name: change * (getattr(before, name) - getattr(after, name)))


def mostly_by(ratio: float, by_card: float, before: StepParts, after: StepParts) -> str:
    """Return `the card`, `host`, `loader` or `exchange`, which makes most of a ratio."""
    part = decided_by(before, after)
    return "the card" if is_cards(ratio, by_card) or part == "device" else part


def wait_text(before: tuple[str, StepParts], after: tuple[str, StepParts]) -> str:
    cause = max(WAITS, key=lambda name: abs(getattr(before[1], name) - getattr(after[1], name)))
    if cause == "exchange":
        name, parts = max(before, after, key=lambda side: side[1].exchange_share)
        text = f"{name}'s cards exchange gradients for {_percent(parts.exchange_share)} of a step"
    else:
        name, parts = max(before, after, key=lambda side: side[1].waiting_share)
        text = f"{name}'s card waits for its {cause} for {_percent(parts.waiting_share)} of a step"
    return f"{text}; {ADVICE[cause]}"


def _without_exchange_s(record: Record, device_s: float) -> float:
    return max(device_s - _exchange_share(record) * (record.mean_s or 0.0), 0.0)


def _exchange_share(record: Record) -> float:
    share = record.group.communication_share if record.group else None
    return min(max(share or 0.0, 0.0), 1.0)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
