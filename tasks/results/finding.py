"""A finding is one result of a run, a file in `tasks/findings`."""

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
    """A lane's job: seconds until it measured, and from then on.

    Attributes:
        stages_s: parts of `wait_s`, if known.
        usd: of a rented machine; jobs on it subtract their time by a negative `run_s`.
        turns_with: other entries of its box that took turns.
        idle_share: of the machine's idle time.
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
    """An earlier run with this answer, or its confirmation.

    `suite`: the cases that count; `sessions`: effects on a ratio.
    """

    run: str
    cells: Sequence[Repeats]
    machines: Sequence[Machine]
    suite: Collection[Case]
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """The answer that this run confirms.

    Attributes:
        run: empty if this run confirms none.
        sessions: that run, then its confirmations; empty if unreadable.
    """

    run: str = ""
    sessions: Sequence[EarlierSession] = ()
    problem: str = ""


NO_ANSWER = EarlierAnswer()  # of a run that confirms none


@dataclass(frozen=True, slots=True)
class Results:
    """The input of every finding.

    Attributes:
        cells: judged, of every cell whose number is a time.
        pairings: with the baseline's cells.
        population: valid records of other runs that asked which machines to keep; None if this one does not.
        earlier: the confirmed answer, or an empty one.
        reported: judged, of the suite's cells with reported numbers.
        number_pairings: these, with the baseline's, by first number.
        forecasts: kept before, of any machine and case.
        predicted: by this run, the newest last.
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
        return [cell for cell in self.cells if cell.cell.case in self.suite]


class Finding:
    """The base of all findings.

    Attributes:
        name: key below `findings` in `benchmark_results.json`.
        artifact: key in the Prefect UI; `bench-<name>` if empty.
        section: `script`, `machines`, `money`, `time` or `findings`.
    """

    __slots__ = ()
    name: ClassVar[str]
    title: ClassVar[str]
    artifact: ClassVar[str] = ""
    section: ClassVar[str] = "findings"
    order: ClassVar[int] = 100

    @classmethod
    def find(cls, results: Results) -> Self:
        """Make the finding; empty without content."""
        raise NotImplementedError

    def headline(self) -> tuple[str, ...]:
        """Return lines of at most 25 words for the head of the answer."""
        return ()

    def table(self) -> Table | None:
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
        return self.sentences
