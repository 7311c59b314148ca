"""A case on one hardware through a channel's nights."""

from dataclasses import dataclass
from datetime import datetime

OK = "ok"
MISSING = "missing"  # the verdict of a night that planned the cell and has no record of it


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """A series' identity.

    Attributes:
        case: such as `matmul/n=5000/fp32`.
        channel: the watched software, such as `release`.
    """

    hardware: str
    case: str
    channel: str

    @property
    def id(self) -> str:
        """Return such as `local-cpu/matmul/n=5000/fp32@main`."""
        return f"{self.hardware}/{self.case}@{self.channel}"


@dataclass(frozen=True, slots=True)
class Observation:
    """One night of a series. Unknown texts are empty.

    Attributes:
        at: time of the plan, UTC.
        seconds: exp of the median log of valid repeats.
        control_s: of their valid controls.
        variance, control_variance: of these logs; None if each session has fewer than two.
        covariance: with controls; None if each session has fewer than two pairs.
        verdict: `ok` if one repeat was, else the commonest; `missing` without a record.
        machine_id: of hardware and driver; `environment_id` adds the stack.
        commit: or the id of a script's code.
        reference: the control's frozen environment.
        repeats, sessions: valid ones.
        settings: those that change the spread.
    """

    run: str
    at: datetime
    seconds: float | None
    control_s: float | None = None
    verdict: str = OK
    machine_id: str = ""
    environment_id: str = ""
    commit: str = ""
    reference: str = ""
    hostname: str = ""
    repeats: int = 1
    sessions: int = 1
    settings: str = ""
    variance: float | None = None
    control_variance: float | None = None
    covariance: float | None = None

    @property
    def ok(self) -> bool:
        return self.seconds is not None


@dataclass(frozen=True, slots=True)
class FreshRuns:
    """Seconds per step of a suspect and its controls; NaN for failed runs.

    Each has as many repeats as a night, because a baseline's spread is that of nights.
    """

    seconds: tuple[float, ...]
    control_s: tuple[float, ...]

    @property
    def count(self) -> int:
        return sum(seconds > 0 for seconds in self.seconds)


@dataclass(frozen=True, slots=True)
class Series:
    """A series, oldest night first.

    `planned` by the channel's newest night: a dropped case is not missing.
    """

    key: SeriesKey
    nights: tuple[Observation, ...]
    planned: bool = True

    @property
    def changes(self) -> dict[int, tuple[str, ...]]:
        """Return later segments' starts, by index, with their changes.

        An unknown machine, reference or setting starts none.
        """
        starts: dict[int, tuple[str, ...]] = {}
        latest: dict[str, str] = {}
        for index, night in enumerate(self.nights):
            facts = {"machine": night.machine_id, "reference": night.reference, "settings": night.settings}
            known = {name: value for name, value in facts.items() if value}
            if changed := tuple(name for name, value in known.items() if latest.get(name, value) != value):
                starts[index] = changed
            latest |= known
        return starts

    @property
    def segment_start(self) -> int:
        return max(self.changes, default=0)

    @property
    def segment(self) -> tuple[Observation, ...]:
        return self.nights[self.segment_start :]
