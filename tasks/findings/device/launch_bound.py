"""Steps in which the device waits for its host."""

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
    Column("Device time", Quantity.TIME),
    Column("Waits for its host", Quantity.SHARE),
)


@dataclass(frozen=True, slots=True)
class LaunchBound(Finding):
    """Cells whose device waits for its host.

    `timed`: all cells with a known busy share.
    """

    name = "launch-bound"
    title = "Device time and waiting"
    order = 46
    timed: tuple[Summary, ...]

    @classmethod
    def find(cls, results: Results) -> "LaunchBound":
        return cls(tuple(summary for summary in results.summaries if summary.busy_share))

    def table(self) -> Table | None:
        waiting = sorted((s for s in self.timed if s.waits), key=_busy)
        rows = tuple(
            (s.cell.hardware, s.cell.case.id, s.compute_s, s.device_s, s.waiting_share) for s in waiting
        )
        lead = (
            "The device waits for its host in these steps, and device time leaves the waiting out; its share is of a "
            "typical step. A faster device "
            "changes only its device time; larger sizes, or fewer and larger operations, shorten the waiting. From a "
            "tenth of a step on it is launch-bound."
        )
        return Table(COLUMNS, rows, lead) if rows else None

    def observations(self) -> tuple[str, ...]:
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
                    f"{format_count(len(cells), 'case')}, for {format_percent(most.waiting_share)} of "
                    f"a step at {most.cell.case.id}."
                )
        return tuple(sentences)


def _busy(cell: Summary) -> float:
    return cell.busy_share.value if cell.busy_share else 1.0
