"""A finding: what a report says of a run. Each is a file in `tasks/findings`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tasks.results.model import Machine, Pairing, Summary
from tasks.results.repeats import Repeats
from tasks.results.table import Table
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record


@dataclass(frozen=True, slots=True)
class LaneJob:
    """One job of a lane: seconds until it started to measure, and from then until it ended.

    `stages_s` are the parts of `wait_s` by name, where its work pool says them. `usd` is what was paid for a
    rented machine; its jobs have no cost of their own: they subtract their time on it by a negative `run_s`.
    """

    hardware: str
    wait_s: float
    run_s: float
    stages_s: tuple[tuple[str, float], ...] = ()
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a finding is made from.

    Attributes:
        cells: the judged repeats of every cell.
        summaries: one for each cell, in the cells' order.
        pairings: every cell of another machine against the baseline's.
        suite: the cases that count for totals; what was measured only to find a break-even is not in it.
        population: records that count of other runs that asked which machines to keep; None where this one
            does not ask.
    """

    records: Sequence[Record]
    machines: Sequence[Machine]
    baseline: str
    cells: Sequence[Repeats]
    summaries: Sequence[Summary]
    pairings: Sequence[Pairing]
    suite: Collection[Case]
    jobs: Sequence[LaneJob] = ()
    population: Sequence[Record] | None = None

    @property
    def suite_cells(self) -> list[Repeats]:
        """Return the cells of the suite."""
        return [cell for cell in self.cells if cell.cell.case in self.suite]


class Finding:
    """The base of all findings.

    Attributes:
        name: its key in `benchmark_results.json`, below `findings`.
        title: its heading.
        artifact: key of its table in the Prefect UI; `bench-<name>` where it is empty.
        section: the section of the page that shows it: `script`, `machines`, `money`, `time` or `findings`.
        order: its place among findings, the smallest first.
    """

    __slots__ = ()
    name: ClassVar[str]
    title: ClassVar[str]
    artifact: ClassVar[str] = ""
    section: ClassVar[str] = "findings"
    order: ClassVar[int] = 100

    @classmethod
    def find(cls, results: Results) -> Self:
        """Find it in the results of a run; with empty fields where there is nothing to say."""
        raise NotImplementedError

    def headline(self) -> tuple[str, ...]:
        """Return lines of at most 25 words that stand first in the answer."""
        return ()

    def table(self) -> Table | None:
        """Return its values; None where there are none."""
        return None

    def details(self) -> tuple[str, ...]:
        """Return sentences that explain the answer."""
        return ()

    def observations(self) -> tuple[str, ...]:
        """Return further sentences that the intervals support."""
        return ()

    def published(self) -> dict[str, Any]:
        """Return keys of its own at the top of `benchmark_results.json`, where programs know such keys."""
        return {}
