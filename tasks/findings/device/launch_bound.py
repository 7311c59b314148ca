"""Launch-bound steps, in which the device idles while it waits for the CPU."""

import math
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
        timed: every cell with a known busy share of its device.
    """

    name = "launch-bound"
    title = "Launch-bound steps"
    order = 46
    timed: tuple[Summary, ...]

    @classmethod
    def find(cls, results: Results) -> "LaunchBound":
        """Take the cells whose device was timed separately."""
        return cls(tuple(summary for summary in results.summaries if summary.busy_share))

    def table(self) -> Table | None:
        """Return a row per launch-bound cell, the one that waits longest first."""
        waiting = sorted((s for s in self.timed if s.launch_bound), key=_busy)
        rows = tuple((s.cell.hardware, s.cell.case.id, s.compute_s, s.busy_share) for s in waiting)
        lead = (
            "The device waits for its host in these steps. A faster device changes their times little; "
            "larger sizes, or fewer and larger operations, use it better."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def observations(self) -> tuple[str, ...]:
        """Count each machine's cases that are launch-bound by their interval, and name the one that waits longest."""
        machines: dict[str, list[Summary]] = {}
        for summary in self.timed:
            machines.setdefault(summary.cell.hardware, []).append(summary)
        sentences = []
        for name, cells in machines.items():
            shown = [c for c in cells if c.busy_share and LAUNCH_BOUND * (c.busy_share.high or math.inf) < 1]
            if shown:
                most = min(shown, key=_busy)
                sentences.append(
                    f"Launch-bound: on {name} the device waits for its host in {len(shown)} of "
                    f"{format_count(len(cells), 'case')}; it computes for {format_percent(most.busy_share)} of "
                    f"a step at {most.cell.case.id}."
                )
        return tuple(sentences)


def _busy(cell: Summary) -> float:
    return cell.busy_share.value if cell.busy_share else 1.0
