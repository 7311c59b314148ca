"""`gate.json`: the gate's verdicts on one night."""

import math
from collections import Counter
from pathlib import Path

from pydantic import ValidationError

from tasks.errors import GridbenchError
from tasks.regressions.nightly_gate import ConfirmedChange, SeriesState
from tasks.regressions.series import FreshRuns, SeriesKey
from tasks.schema import Strict, first_mistake
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

FILE, SCHEMA = "gate.json", 1
LISTED = 20  # sentences in an answer
Seconds = tuple[float | None, ...]


class StoredChange(Strict):
    """A `ConfirmedChange`, with null for NaN."""

    hardware: str
    case: str
    share: float
    z: float
    seconds: Seconds
    control_s: Seconds
    spread: float
    beta: float
    shared: float = 0.0
    freedom: float = 0.0

    @classmethod
    def of(cls, change: ConfirmedChange) -> "StoredChange":
        fresh, names = change.fresh, ("share", "z", "spread", "beta", "shared", "freedom")
        return cls(
            hardware=change.key.hardware,
            case=change.key.case,
            seconds=tuple(s if math.isfinite(s) else None for s in fresh.seconds),
            control_s=tuple(s if math.isfinite(s) else None for s in fresh.control_s),
            **{name: getattr(change, name) for name in names},
        )

    def change(self, run: str, channel: str) -> ConfirmedChange:
        fresh = FreshRuns(_numbers(self.seconds), _numbers(self.control_s))
        key = SeriesKey(self.hardware, self.case, channel)
        behaviour = self.spread, self.beta, self.shared, self.freedom
        return ConfirmedChange(key, run, self.share, self.z, fresh, *behaviour)


class SeriesVerdict(Strict):
    """One night's verdict on a series.

    Attributes:
        seconds: per step.
        z: distance from the baseline in spreads of a night.
        share: of fresh runs' seconds over those before, minus 1.
        smallest_change: detected with even odds.
    """

    hardware: str
    case: str
    state: SeriesState
    seconds: float | None = None
    z: float | None = None
    share: float | None = None
    smallest_change: float | None = None
    nights: int = 0
    beta: float = 0.0
    because: tuple[str, ...] = ()


class Ticket(Strict):
    """A finding, filed once.

    Attributes:
        kind: `target` is a whole machine, `leak` a change that no single night shows.
        share: seconds over those before, minus 1, of the worst case.
        since: nights in which a leak probably began.
    """

    kind: str
    hardware: str
    cases: tuple[str, ...]
    sentence: str
    share: float | None = None
    because: tuple[str, ...] = ()
    since: tuple[str, ...] = ()

    @property
    def is_bad(self) -> bool:
        return self.share is not None and self.share > 0


class Verdicts(Strict):
    """The content of `gate.json`.

    Attributes:
        confirm_z: standard errors that fresh runs had to exceed.
        confirmations: runs that measured suspects again.
        odd: on unreadable nights.
    """

    schema_version: int = SCHEMA
    run: str
    channel: str
    confirm_z: float
    confirmations: tuple[str, ...] = ()
    series: tuple[SeriesVerdict, ...] = ()
    changes: tuple[StoredChange, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    odd: tuple[str, ...] = ()

    @property
    def bad(self) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.is_bad]

    @property
    def answer(self) -> str:
        """Return a few sentences, tickets first."""
        counts = Counter(verdict.state for verdict in self.series)
        states = ", ".join(f"{count} {state}" for state in SeriesState if (count := counts[state]))
        sentences = [ticket.sentence for ticket in self.tickets[:LISTED]]
        if len(self.tickets) > LISTED:
            sentences.append(f"And {len(self.tickets) - LISTED} more tickets.")
        if without := sum(verdict.seconds is None for verdict in self.series):
            sentences.append(f"{without} of {len(self.series)} series have no number tonight.")
        if self.is_empty:
            sentences.insert(0, "Nothing could be judged.")
        result = " ".join(sentences) or "Nothing has got worse."
        return f"{result} {len(self.series)} series: {states or 'none'}."

    @property
    def is_empty(self) -> bool:
        return all(verdict.seconds is None for verdict in self.series)

    def confirmed(self) -> list[ConfirmedChange]:
        return [stored.change(self.run, self.channel) for stored in self.changes]


def write_verdicts(folder: Path, verdicts: Verdicts) -> None:
    """Write a night's `gate.json`.

    Raises:
        GridbenchError: it cannot be written.
    """
    try:
        write_text(folder / FILE, verdicts.model_dump_json(indent=1) + "\n")
    except WorkloadsError as error:
        raise GridbenchError(f"results: {error}") from None


def read_verdicts(folder: Path) -> Verdicts | None:
    """Return None if the night is not judged yet.

    Raises:
        GridbenchError: corrupt or of another version.
    """
    path = folder / FILE
    try:
        verdicts = Verdicts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GridbenchError(f"{path} can't be read ({error.strerror})") from None
    except ValidationError as error:
        raise GridbenchError(f"{path} can't be read: {first_mistake(error)}") from None
    if verdicts.schema_version != SCHEMA:
        raise GridbenchError(f"{path} has schema {verdicts.schema_version}, this version reads {SCHEMA}")
    return verdicts


def _numbers(stored: Seconds) -> tuple[float, ...]:
    return tuple(math.nan if number is None else number for number in stored)
