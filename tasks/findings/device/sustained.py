"""Sustained speed against a burst's: what is left of a device's first second after a soak."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_percent
from tasks.results.model import Summary
from tasks.results.table import Column, Quantity, Table

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Time per step after the soak", Quantity.TIME),
    Column("Speed relative to the first second", Quantity.SHARE),
)


@dataclass(frozen=True, slots=True)
class Sustained(Finding):
    """Cells that were soaked: their speed then, over that of the first second."""

    name = "sustained"
    title = "Sustained speed"
    order = 47
    soaked: tuple[Summary, ...]

    @classmethod
    def find(cls, results: Results) -> "Sustained":
        """Take the cells that stepped for a while before they were sampled."""
        return cls(tuple(summary for summary in results.summaries if summary.sustained_share))

    def table(self) -> Table | None:
        """Return a row a cell that was soaked, the one that loses most first."""
        cells = sorted(self.soaked, key=_share)
        rows = tuple((s.cell.hardware, s.cell.case.id, s.compute_s, s.sustained_share) for s in cells)
        lead = (
            "These cells stepped until heat and power had settled. Their times are those of a long job; "
            "a short one has the speed of the first second."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def observations(self) -> tuple[str, ...]:
        """Say of each machine at which case it is shown to lose most of its first second's speed."""
        machines: dict[str, list[Summary]] = {}
        for summary in self.soaked:
            if summary.sustained_share and (summary.sustained_share.high or 1.0) < 1:
                machines.setdefault(summary.cell.hardware, []).append(summary)
        return tuple(_sentence(name, cells) for name, cells in machines.items())


def _sentence(hardware: str, cells: Sequence[Summary]) -> str:
    most = min(cells, key=_share)
    share, case = format_percent(most.sustained_share), most.cell.case.id
    return f"Sustained: after a soak {hardware} keeps {share} of the speed of its first second, at {case}."


def _share(cell: Summary) -> float:
    return cell.sustained_share.value if cell.sustained_share else 1.0
