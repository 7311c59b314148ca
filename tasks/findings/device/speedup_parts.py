"""A speedup's parts: the card's, and waiting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tasks.results.finding import Finding, Results
from tasks.results.format import format_ratio
from tasks.results.repeats import Repeats
from tasks.results.sessions import Part
from tasks.results.speedup import per_unit, speedup, step_units
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate, Ratio
from workloads.harness.records.case import Case
from workloads.harness.records.step_parts import (
    StepParts,
    card_gap,
    cards_s,
    decided_by,
    is_cards,
    mostly_by,
    step_parts,
    wait_text,
)
from workloads.harness.roofline.bounds import case_without_loader

Cells = Mapping[tuple[str, Case | None], Repeats]
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Speedup", Quantity.RATIO),
    Column("By the card", Quantity.RATIO),
    Column("Baseline's card waits", Quantity.SHARE),
    Column("This card waits", Quantity.SHARE),
    Column("Mostly by"),
)


@dataclass(frozen=True, slots=True)
class Split:
    """A speedup over the baseline, and the card's part of it."""

    hardware: str
    case: str
    baseline: str
    total: Ratio
    by_card: Estimate
    before: StepParts
    after: StepParts

    @property
    def decided_by(self) -> str:
        return decided_by(self.before, self.after)

    @property
    def gap(self) -> float:
        return card_gap(self.total.estimate.value, self.by_card.value)

    @property
    def is_cards(self) -> bool:
        return is_cards(self.total.estimate.value, self.by_card.value)

    def sentence(self) -> str:
        total = self.total.estimate
        faster = f"{self.hardware} is {format_ratio(total)} as fast as {self.baseline} at {self.case}"
        if self.is_cards:
            return f"{faster}, by the card."
        waits = wait_text((self.baseline, self.before), (self.hardware, self.after))
        return f"{faster}, {format_ratio(self.by_card)} by the card: {waits}."


@dataclass(frozen=True, slots=True)
class SpeedupParts(Finding):
    """Each speedup between GPU machines.

    A kernel runs during device time; the rest of a step is waiting.
    """

    name = "speedup-parts"
    title = "Where speedups come from"
    order = 45
    splits: tuple[Split, ...]

    @classmethod
    def find(cls, results: Results) -> "SpeedupParts":
        by_cell: Cells = {(c.cell.hardware, c.cell.case): c for c in results.cells}
        found = []
        for cell in results.cells:
            baseline = by_cell.get((results.baseline, cell.cell.case))
            if baseline is None or cell is baseline:
                continue
            added = results.sessions.of_cell(results.baseline, cell.cell.hardware)
            if split := _split(baseline, cell, by_cell, added):
                found.append(split)
        return cls(tuple(found))

    def table(self) -> Table | None:
        rows = tuple(
            (
                split.hardware,
                split.case,
                split.total,
                split.by_card,
                split.before.waiting_share,
                split.after.waiting_share,
                mostly_by(split.total.estimate.value, split.by_card.value, split.before, split.after),
            )
            for split in sorted(self.splits, key=lambda split: -split.gap)
        )
        lead = (
            "A speedup by the card compares only the time in which the cards compute. The rest of a step is waiting, "
            "which another host, batch or data loader changes; it is a share of the mean step, slow steps included."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def details(self) -> tuple[str, ...]:
        worst: dict[str, Split] = {}
        for split in sorted(self.splits, key=lambda split: -split.gap):
            if not split.is_cards:
                worst.setdefault(split.hardware, split)
        return tuple(split.sentence() for split in worst.values())


def _split(baseline: Repeats, side: Repeats, by_cell: Cells, sessions: Sequence[Part] = ()) -> Split | None:
    """Return None unless the card's time is above 0 on both sides.

    Times are per unit of work if both sides state theirs: in weak scaling steps differ.
    """
    before, after = _parts(baseline, by_cell), _parts(side, by_cell)
    total = speedup(*per_unit(baseline, side), sessions)
    cards = cards_s(baseline.usable, side.usable)
    if total is None or before is None or after is None or cards is None:
        return None
    units = step_units(baseline, side)
    per_card = [[value / unit for value in values] for values, unit in zip(cards, units, strict=True)]
    by_card = speedup(per_card[0], per_card[1], sessions)
    if by_card is None:
        return None
    before, after = before.scaled(1 / units[0]), after.scaled(1 / units[1])
    cell = side.cell
    return Split(cell.hardware, cell.case.id, baseline.cell.hardware, total, by_card.estimate, before, after)


def _parts(cell: Repeats, by_cell: Cells) -> StepParts | None:
    """Return mean parts; the loader's by the same case without it, if measured."""
    plain = by_cell.get((cell.cell.hardware, case_without_loader(cell.cell.case)))
    return step_parts(cell.usable, fmean(plain.compute_s) if plain and plain.compute_s else None)
