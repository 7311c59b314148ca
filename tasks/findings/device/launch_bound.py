"""Steps that wait for their host: the device computes for a part of them only."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_count, format_percent
from tasks.results.model import Summary
from tasks.results.table import Column, Quantity, Table
from workloads.harness.records.record import LAUNCH_BOUND

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Time per step", Quantity.TIME),
    Column("Device busy", Quantity.SHARE),
)


@dataclass(frozen=True, slots=True)
class LaunchBound(Finding):
    """Cells whose device waits for its host for a tenth of a step or more.

    Attributes:
        timed: every cell of which is known for how long the device computes.
    """

    name = "launch-bound"
    title = "Launch-bound steps"
    order = 46
    timed: tuple[Summary, ...]

    @classmethod
    def find(cls, results: Results) -> "LaunchBound":
        """Take the cells whose device was timed alone."""
        return cls(tuple(summary for summary in results.summaries if summary.busy_share))

    def table(self) -> Table | None:
        """Return a row a launch-bound cell, the one that waits longest first."""
        waiting = sorted((s for s in self.timed if s.launch_bound), key=_busy)
        rows = tuple((s.cell.hardware, s.cell.case.id, s.compute_s, s.busy_share) for s in waiting)
        lead = (
            "The device waits for its host in these steps. A faster device changes their times little; "
            "larger sizes, or fewer and larger operations, use it better."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def observations(self) -> tuple[str, ...]:
        """Say of each machine how many of its cases are shown to be launch-bound, and which waits longest."""
        machines: dict[str, list[Summary]] = {}
        for summary in self.timed:
            machines.setdefault(summary.cell.hardware, []).append(summary)
        return tuple(text for name, cells in machines.items() if (text := _sentence(name, cells)))


def _sentence(hardware: str, cells: Sequence[Summary]) -> str:
    shown = [cell for cell in cells if _is_shown(cell)]
    if not shown:
        return ""
    most = min(shown, key=_busy)
    return (
        f"Launch-bound: on {hardware} the device waits for its host in {len(shown)} of "
        f"{format_count(len(cells), 'case')}; it computes for {format_percent(most.busy_share)} of a step at "
        f"{most.cell.case.id}."
    )


def _is_shown(cell: Summary) -> bool:
    """Return whether the interval leaves no doubt that a cell is launch-bound."""
    high = cell.busy_share.high if cell.busy_share else None
    return high is not None and LAUNCH_BOUND * high < 1


def _busy(cell: Summary) -> float:
    return cell.busy_share.value if cell.busy_share else 1.0
