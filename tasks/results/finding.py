"""A finding: one result of a run. Each is a file in `tasks/findings`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tasks.results.forecast import Forecast
from tasks.results.model import Machine, Pairing, Summary
from tasks.results.repeats import Repeats
from tasks.results.sessions import WITHIN, Sessions
from tasks.results.table import Table
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record


@dataclass(frozen=True, slots=True)
class LaneJob:
    """A job of a lane: seconds until it started to measure, and from then until it ended.

    Attributes:
        stages_s: parts of `wait_s` by name, if known.
        usd: cost of a rented machine; jobs on it subtract their time by a negative `run_s`, at no cost.
        turns_with: other hardware entries of its box that took turns in it.
        idle_share: its part of the machine's idle time.
    """

    hardware: str
    wait_s: float
    run_s: float
    stages_s: tuple[tuple[str, float], ...] = ()
    usd: float | None = None
    turns_with: tuple[str, ...] = ()
    idle_share: float = 1.0


@dataclass(frozen=True, slots=True)
class EarlierSession:
    """A run whose answer this one measures again, or such a measurement.

    `suite` are the cases that count for its answer; `sessions` are effects on the ratio of two of its machines.
    """

    run: str
    cells: Sequence[Repeats]
    machines: Sequence[Machine]
    suite: Collection[Case]
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """The answer of an earlier run, which this run measures again.

    Attributes:
        run: empty if this run confirms none.
        sessions: that run, then its confirmations; empty if unreadable.
        problem: why it cannot be read.
    """

    run: str = ""
    sessions: Sequence[EarlierSession] = ()
    problem: str = ""


NO_ANSWER = EarlierAnswer()  # of a run that confirms none


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a finding is made from.

    Attributes:
        cells: judged repeats of every cell whose number is a time.
        summaries: of each of these.
        pairings: every cell of another machine with the baseline's.
        suite: the cases for totals.
        population: valid records of other runs that asked which machines to keep; None if this one does not.
        earlier: the answer that this run measures again, or an empty one.
        reported: judged repeats of the suite's cells with reported numbers.
        number_pairings: these, each with the baseline's, by its first number.
        forecasts: predictions kept before, of any machine and case.
        predicted: those of this run, the newest last.
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
    sessions: Sessions = WITHIN
    earlier: EarlierAnswer = NO_ANSWER
    reported: Sequence[Repeats] = ()
    number_pairings: Sequence[Pairing] = ()
    forecasts: Sequence[Forecast] = ()
    predicted: Sequence[Forecast] = ()

    @property
    def suite_cells(self) -> list[Repeats]:
        """Return the cells of the suite."""
        return [cell for cell in self.cells if cell.cell.case in self.suite]


class Finding:
    """The base of all findings.

    Attributes:
        name: its key below `findings` in `benchmark_results.json`.
        artifact: key of its table in the Prefect UI; `bench-<name>` if empty.
        section: of the page: `script`, `machines`, `money`, `time` or `findings`.
        order: its position, the smallest first.
    """

    __slots__ = ()
    name: ClassVar[str]
    title: ClassVar[str]
    artifact: ClassVar[str] = ""
    section: ClassVar[str] = "findings"
    order: ClassVar[int] = 100

    @classmethod
    def find(cls, results: Results) -> Self:
        """Make the finding from a run's results; empty without content."""
        raise NotImplementedError

    def headline(self) -> tuple[str, ...]:
        """Return lines of at most 25 words for the head of the answer."""
        return ()

    def table(self) -> Table | None:
        """Return its values, or None."""
        return None

    def details(self) -> tuple[str, ...]:
        """Return sentences that explain the answer."""
        return ()

    def observations(self) -> tuple[str, ...]:
        """Return further sentences that the intervals support."""
        return ()

    def published(self) -> dict[str, Any]:
        """Return keys at the top of `benchmark_results.json`."""
        return {}


@dataclass(frozen=True, slots=True)
class Sentences(Finding):
    """A finding of sentences alone."""

    sentences: tuple[str, ...]

    def observations(self) -> tuple[str, ...]:
        """Return the sentences."""
        return self.sentences
