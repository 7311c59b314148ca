"""Speed after a soak over the first second's."""

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
    """Cells with a soak."""

    name = "sustained"
    title = "Sustained speed"
    order = 47
    soaked: tuple[Summary, ...]

    @classmethod
    def find(cls, results: Results) -> "Sustained":
        return cls(tuple(summary for summary in results.summaries if summary.sustained_share))

    def table(self) -> Table | None:
        cells = sorted(self.soaked, key=_share)
        rows = tuple((s.cell.hardware, s.cell.case.id, s.compute_s, s.sustained_share) for s in cells)
        lead = (
            "These cells stepped until heat and power had settled. Their times are those of a long job; "
            "a short one has the speed of the first second."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def observations(self) -> tuple[str, ...]:
        machines: dict[str, list[Summary]] = {}
        for summary in self.soaked:
            if summary.sustained_share and (summary.sustained_share.high or 1.0) < 1:
                machines.setdefault(summary.cell.hardware, []).append(summary)
        worst = {name: min(cells, key=_share) for name, cells in machines.items()}
        return tuple(
            f"Sustained: after a soak {name} keeps {format_percent(most.sustained_share)} of the speed of its "
            f"first second, at {most.cell.case.id}."
            for name, most in worst.items()
        )


def _share(cell: Summary) -> float:
    return cell.sustained_share.value if cell.sustained_share else 1.0
