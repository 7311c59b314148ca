"""`gate.json`: what the gate said of a night. Stored events, from which later nights and people read on."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from tasks.errors import GridbenchError
from tasks.regressions.nightly_gate import Change, Fresh, State
from tasks.regressions.series import SeriesKey
from tasks.schema import Strict, first_mistake
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

FILE, SCHEMA = "gate.json", 1
LISTED = 20  # sentences in an answer
Seconds = tuple[float | None, ...]


class StoredChange(Strict):
    """A `Change`, with None for NaN."""

    hardware: str
    case: str
    share: float
    z: float
    seconds: Seconds
    control_s: Seconds
    spread: float
    beta: float

    @classmethod
    def of(cls, change: Change) -> "StoredChange":
        """A change, to be written down."""
        key, fresh = change.key, change.fresh
        return cls(
            hardware=key.hardware,
            case=key.case,
            share=change.share,
            z=change.z,
            seconds=_known(fresh.seconds),
            control_s=_known(fresh.control_s),
            spread=change.spread,
            beta=change.beta,
        )

    def change(self, run: str, channel: str) -> Change:
        """The change itself."""
        fresh = Fresh(_numbers(self.seconds), _numbers(self.control_s))
        key = SeriesKey(self.hardware, self.case, channel)
        return Change(key, run, self.share, self.z, fresh, self.spread, self.beta)


class SeriesVerdict(Strict):
    """What a night was for a series.

    Attributes:
        seconds: per step; None without an ok record.
        z: distance from the baseline in spreads of a night; None while it is warming, or without a number.
        share: by how much it took longer than before, by fresh runs; None where there were none.
        smallest_change: that it could have shown with even odds; None while it is warming.
        nights: that its baseline is of.
        beta: weight of the control.
        because: sentences that explain.
    """

    hardware: str
    case: str
    state: State
    seconds: float | None = None
    z: float | None = None
    share: float | None = None
    smallest_change: float | None = None
    nights: int = 0
    beta: float = 0.0
    because: tuple[str, ...] = ()


class Ticket(Strict):
    """What somebody should look at, filed in the night in which it was found and in no other.

    Attributes:
        kind: `regression`, `improvement`, `target` (a whole machine), `missing`, or `leak` (what no single
            night is large enough to show).
        cases: of that hardware.
        share: of the worst case: how much longer it takes; None where nothing was measured.
        since: the nights in which a leak is thought to have come.
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
        """Whether it makes the night fail: something is slower."""
        return self.share is not None and self.share > 0


class Verdicts(Strict):
    """A night's `gate.json`.

    Attributes:
        confirm_z: what fresh runs were held to, for so many series.
        confirmations: the runs that measured suspects again.
        odd: sentences about nights that could not be read, or not wholly.
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
        """The tickets that make the night fail."""
        return [ticket for ticket in self.tickets if ticket.is_bad]

    @property
    def answer(self) -> str:
        """The night in a sentence."""
        counts = Counter(one.state for one in self.series)
        told = ", ".join(f"{count} {state}" for state in State if (count := counts[state]))
        said = [ticket.sentence for ticket in self.tickets[:LISTED]]
        if len(self.tickets) > LISTED:
            said.append(f"And {len(self.tickets) - LISTED} more tickets.")
        if without := sum(one.seconds is None for one in self.series):
            said.append(f"{without} of {len(self.series)} series have no number tonight.")
        return f"{' '.join(said) or 'Nothing has got worse.'} {len(self.series)} series: {told or 'none'}."

    @property
    def is_empty(self) -> bool:
        """Whether no series has a number: then nobody knows what has got worse."""
        return all(one.seconds is None for one in self.series)

    def confirmed(self) -> list[Change]:
        """What later nights must know."""
        return [stored.change(self.run, self.channel) for stored in self.changes]


def write_verdicts(folder: Path, verdicts: Verdicts) -> None:
    """Write a night's `gate.json` into its run's folder.

    Raises:
        GridbenchError: it can't be written.
    """
    try:
        write_text(folder / FILE, verdicts.model_dump_json(indent=1) + "\n")
    except WorkloadsError as error:
        raise GridbenchError(f"results: {error}") from None


def read_verdicts(folder: Path) -> Verdicts | None:
    """What the gate said of the night in a folder; None where it said nothing yet.

    Raises:
        GridbenchError: the file is corrupt or of another version.
    """
    path = folder / FILE
    try:
        found = Verdicts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GridbenchError(f"{path} can't be read ({error.strerror})") from None
    except ValidationError as error:
        raise GridbenchError(f"{path} can't be read: {first_mistake(error)}") from None
    if found.schema_version != SCHEMA:
        raise GridbenchError(f"{path} has schema {found.schema_version}, this version reads {SCHEMA}")
    return found


def _known(numbers: Sequence[float]) -> Seconds:
    return tuple(number if math.isfinite(number) else None for number in numbers)


def _numbers(known: Seconds) -> tuple[float, ...]:
    return tuple(math.nan if number is None else number for number in known)
