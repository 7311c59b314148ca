"""Where a speedup between two GPU machines comes from: the card, or what keeps the card waiting."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from tasks.results.finding import Finding, Results
from tasks.results.format import format_ratio, significant
from tasks.results.repeats import Repeats
from tasks.results.speedup import per_unit, speedup, step_units
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate, Ratio
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record
from workloads.harness.roofline.bounds import case_without_loader

Cells = Mapping[tuple[str, Case | None], Repeats]
NOTABLE = 0.05  # a part that changes the ratio by less is not named
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Speedup", Quantity.RATIO),
    Column("By the card", Quantity.RATIO),
    Column("Baseline's card waits", Quantity.SHARE),
    Column("This card waits", Quantity.SHARE),
    Column("Mostly by"),
)
ADVICE = {
    "host": "CUDA graphs, torch.compile, a larger batch or a faster CPU would shorten the wait",
    "loader": "more loader workers, a faster CPU or data that is decoded already would shorten the wait",
    "exchange": "a faster link between the cards or a larger batch per card would shorten it",
}


@dataclass(frozen=True, slots=True)
class StepParts:
    """The mean parts of a step over repeats, in seconds: they add up to the step.

    Attributes:
        device: the card computes; `exchange`: it exchanges gradients with others.
        loader: the card waits for the data loader; `host`: for anything else of its host.
    """

    device: float
    host: float
    loader: float = 0.0
    exchange: float = 0.0

    @property
    def step_s(self) -> float:
        """Seconds of the whole step."""
        return self.device + self.host + self.loader + self.exchange

    def scaled(self, factor: float) -> "StepParts":
        """Return the parts times a factor, such as 1 over the work of a step."""
        return StepParts(*(factor * part for part in (self.device, self.host, self.loader, self.exchange)))

    @property
    def waiting_share(self) -> float:
        """The share of a step in which the card waits for its host or the loader."""
        return (self.host + self.loader) / self.step_s


@dataclass(frozen=True, slots=True)
class Split:
    """A speedup and its part by the card, of one case on one machine against the baseline."""

    hardware: str
    case: str
    baseline: str
    total: Ratio
    by_card: Estimate
    before: StepParts
    after: StepParts

    @property
    def decided_by(self) -> str:
        """The part of a step whose change makes up most of the difference; `device` if nothing differs."""
        parts = ("device", "host", "loader", "exchange")
        change = self.before.step_s - self.after.step_s
        return max(parts, key=lambda name: math.copysign(1, change) * self.saved_s(name))

    def saved_s(self, part: str) -> float:
        """Seconds by which this part of a step is shorter than on the baseline."""
        return float(getattr(self.before, part) - getattr(self.after, part))

    @property
    def gap(self) -> float:
        """How far the whole ratio is from the card's."""
        return card_gap(self.total, self.by_card.value)

    @property
    def is_cards(self) -> bool:
        """True if the speedup is the card's: without its waiting it would be nearly the same."""
        return self.gap <= NOTABLE

    def sentence(self) -> str:
        """Say how large the card's part is, which machine's host makes the rest, and what would change it."""
        total = self.total.estimate
        faster = f"{self.hardware} is {format_ratio(total)} as fast as {self.baseline} at {self.case}"
        if self.is_cards:
            return f"{faster}, by the card."
        cause = self.decided_by if self.decided_by != "device" else "host"
        sides = ((self.baseline, self.before), (self.hardware, self.after))
        slower, parts = max(sides, key=_exchanging if cause == "exchange" else _waiting)
        waits = f"{slower}'s card waits for its {cause} for {_percent(parts.waiting_share)} of a step"
        if cause == "exchange":
            waits = (
                f"{slower}'s cards exchange gradients for {_percent(_exchanging((slower, parts)))} of a step"
            )
        return f"{faster}, {format_ratio(self.by_card)} by the card: {waits}; {ADVICE[cause]}."


@dataclass(frozen=True, slots=True)
class SpeedupParts(Finding):
    """Each speedup between GPU machines, split into the card's part and the waiting.

    Source: device time is the time in which a kernel runs; the rest of a step is waiting (`Record.device_busy_s`).
    """

    name = "speedup-parts"
    title = "Where speedups come from"
    order = 45
    splits: tuple[Split, ...]

    @classmethod
    def find(cls, results: Results) -> "SpeedupParts":
        """Split the speedup of each case whose device time is known on both machines."""
        by_cell: Cells = {(c.cell.hardware, c.cell.case): c for c in results.cells}
        found = []
        for cell in results.cells:
            baseline = by_cell.get((results.baseline, cell.cell.case))
            if baseline is None or cell is baseline:
                continue
            if split := _split(baseline, cell, by_cell):
                found.append(split)
        return cls(tuple(found))

    def table(self) -> Table | None:
        """Return a row per case, the one in which waiting decides most first."""
        rows = tuple(
            (
                split.hardware,
                split.case,
                split.total,
                split.by_card,
                split.before.waiting_share,
                split.after.waiting_share,
                "the card" if split.is_cards or split.decided_by == "device" else split.decided_by,
            )
            for split in sorted(self.splits, key=lambda split: -split.gap)
        )
        lead = (
            "A speedup by the card compares only the time in which the cards compute. The rest of a step is waiting, "
            "which another host, batch or data loader changes."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def details(self) -> tuple[str, ...]:
        """Return a sentence for each machine: its speedup that is least its card's."""
        worst: dict[str, Split] = {}
        for split in sorted(self.splits, key=lambda split: -split.gap):
            if not split.is_cards:
                worst.setdefault(split.hardware, split)
        return tuple(split.sentence() for split in worst.values())


def card_gap(total: Ratio, by_card: float) -> float:
    """Return how far a whole ratio is from the cards' part of it, on a logarithmic scale."""
    return abs(math.log(total.estimate.value / by_card))


def card_s(cell: Repeats) -> list[float]:
    """Return the seconds per step in which a card computes, without exchanging gradients, of each usable repeat."""
    return [
        max(record.device_busy_s - _exchange_share(record) * record.mean_s, 0.0)
        for record in cell.usable
        if record.device_busy_s and record.mean_s
    ]


def _split(baseline: Repeats, side: Repeats, by_cell: Cells) -> Split | None:
    """Return the split of one speedup; None unless the card's time is known and above 0 on both sides.

    Times are per unit of work if both sides state theirs: in weak scaling a step is more work on one side.
    """
    before, after = _parts(baseline, by_cell), _parts(side, by_cell)
    total = speedup(*per_unit(baseline, side))
    if total is None or before is None or after is None or not before.device * after.device > 0:
        return None
    units = step_units(baseline, side)
    cards = [
        [value / unit for value in card_s(cell)] for cell, unit in zip((baseline, side), units, strict=True)
    ]
    by_card = speedup(*cards)
    if by_card is None:
        return None
    before, after = before.scaled(1 / units[0]), after.scaled(1 / units[1])
    cell = side.cell
    return Split(cell.hardware, cell.case.id, baseline.cell.hardware, total, by_card.estimate, before, after)


def _parts(cell: Repeats, by_cell: Cells) -> StepParts | None:
    """Return the mean parts of a step; the loader's by the same case without it, if that was measured."""
    known = [record for record in cell.usable if record.device_busy_s and record.mean_s]
    if not known:
        return None
    step_s, device_s = fmean(record.mean_s or 0.0 for record in known), fmean(card_s(cell))
    exchange_s = fmean(map(_exchange_share, known)) * step_s
    waiting_s = max(step_s - device_s - exchange_s, 0.0)
    plain = by_cell.get((cell.cell.hardware, case_without_loader(cell.cell.case)))
    loader_s = min(max(step_s - fmean(plain.compute_s), 0.0), waiting_s) if plain and plain.compute_s else 0.0
    return StepParts(device_s, waiting_s - loader_s, loader_s, exchange_s)


def _exchange_share(record: Record) -> float:
    share = record.group.communication_share if record.group else None
    return min(max(share or 0.0, 0.0), 1.0)


def _waiting(side: tuple[str, StepParts]) -> float:
    return side[1].waiting_share


def _exchanging(side: tuple[str, StepParts]) -> float:
    return side[1].exchange / side[1].step_s


def _percent(share: float) -> str:
    return f"{significant(100 * share, 2)} %"
