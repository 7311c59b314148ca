"""Sessions, processes and samples in a machine's spread."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.findings.totals import CommonCases, Logs
from tasks.results.finding import Finding, Results
from tasks.results.format import format_count
from tasks.results.repeats import Repeats
from tasks.results.table import Column, Quantity, Table
from workloads.harness.records.intervals import pooled_variance, variance, variances
from workloads.harness.records.record import Record

INTERVAL_TO_SD = 1 / (2 * 1.96)  # of a 95 % interval of many samples
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Sessions", Quantity.COUNT),
    Column("Between sessions", Quantity.SHARE),
    Column("Between processes of a session", Quantity.SHARE),
    Column("Samples of a process", Quantity.SHARE),
    Column("Sessions are"),
)
LEAD = (
    "Standard deviations of log times: of a pass between sessions, without the part that processes explain; of the "
    "processes of a cell within a session; and the standard error that samples leave in the time of a process."
)
APART, IN_A_ROW = "other boxes, or an hour apart", "turns of one box in a row"


@dataclass(frozen=True, slots=True)
class SpreadOfMachine:
    """Standard deviations of log times by level.

    Attributes:
        between: between sessions; 0 if processes explain it.
        processes: within a session.
        samples: standard error of a process's time.
        are_apart: on other boxes, or an hour apart.
    """

    hardware: str
    sessions: int
    between: float
    processes: float | None
    samples: float | None
    are_apart: bool


@dataclass(frozen=True, slots=True)
class SessionSpread(Finding):
    """Machines with several sessions."""

    name = "session-spread"
    title = "What sessions, processes and samples add"
    order = 75
    machines: tuple[SpreadOfMachine, ...]

    @classmethod
    def find(cls, results: Results) -> "SessionSpread":
        """Take only sessions of this run."""
        several = any(number > 1 for cell in results.suite_cells for number in cell.session_numbers)
        return cls(tuple(_spreads(results.suite_cells)) if several else ())

    def table(self) -> Table | None:
        rows = tuple(
            (m.hardware, m.sessions, m.between, m.processes, m.samples, APART if m.are_apart else IN_A_ROW)
            for m in self.machines
        )
        return Table(COLUMNS, rows, LEAD) if rows else None

    def observations(self) -> tuple[str, ...]:
        return tuple(
            f"{m.hardware}: {format_count(m.sessions, 'session')} ({APART if m.are_apart else IN_A_ROW}) differ by "
            f"{100 * m.between:.2g} % (standard deviation) beyond what its processes explain."
            for m in self.machines
        )

    def published(self) -> dict[str, Any]:
        return {"session_spread": [asdict(machine) for machine in self.machines]} if self.machines else {}


def _spreads(cells: Sequence[Repeats]) -> Iterator[SpreadOfMachine]:
    for name in dict.fromkeys(cell.cell.hardware for cell in cells):
        own = [cell for cell in cells if cell.cell.hardware == name]
        suite = CommonCases.of(own)
        split = suite.split(name) if suite.cases else []
        if len(split) > 1:
            logs = [each.logs[name] for each in split]
            records = [record for cell in own for record in cell.usable]
            yield SpreadOfMachine(
                name,
                len(split),
                _between(logs),
                _within(logs),
                _samples_sd(records),
                suite.has_sessions_apart(name),
            )


def _between(sessions: Sequence[Sequence[Logs]]) -> float:
    """Return the standard deviation by moments, less the processes' part.

    Source: Kalibera & Jones 2013, Rigorous benchmarking in reasonable time, 6.
    """
    levels = [statistics.fmean(map(statistics.fmean, cases)) for cases in sessions]
    within = _within(sessions) or 0.0
    expected = statistics.fmean(
        math.fsum(within**2 / len(of_case) for of_case in cases) / len(cases) ** 2 for cases in sessions
    )
    return math.sqrt(max(variance(levels) - expected, 0.0))


def _within(sessions: Sequence[Sequence[Logs]]) -> float | None:
    squared, freedom = pooled_variance(variances(of_case for cases in sessions for of_case in cases))
    return math.sqrt(squared) if freedom else None


def _samples_sd(records: Sequence[Record]) -> float | None:
    timings = [record.device_time or record.wall for record in records]
    shares = [
        INTERVAL_TO_SD * (timing.mean_high_s - timing.mean_low_s) / timing.total_mean_s
        for timing in timings
        if timing and timing.mean_low_s is not None and timing.mean_high_s is not None
    ]
    return math.sqrt(statistics.fmean(share**2 for share in shares)) if shares else None
