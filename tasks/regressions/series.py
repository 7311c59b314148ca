"""The types of history: a case on one piece of hardware through the nights of one channel."""

from dataclasses import dataclass
from datetime import datetime

OK = "ok"
MISSING = "missing"  # the verdict of a night that had planned the cell and has no record of it


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """The identity of a series.

    Attributes:
        case: its id, such as `matmul/n=5000/fp32`.
        channel: the software that is followed, such as `main` or `release`.
    """

    hardware: str
    case: str
    channel: str

    @property
    def id(self) -> str:
        """Return a readable, stable id, such as `local-cpu/matmul/n=5000/fp32@main`."""
        return f"{self.hardware}/{self.case}@{self.channel}"


@dataclass(frozen=True, slots=True)
class Observation:
    """One night of a series. Texts are empty where they are unknown.

    Attributes:
        at: when the night was planned, UTC.
        seconds: per step, exp of the median of the logs of the repeats that count; None where none does.
        control_s: the same of the controls that were measured beside them and count.
        variance, control_variance: of the logs of these repeats; None for fewer than two.
        verdict: `ok` where one repeat was, else the commonest; `missing` where there is no record.
        machine_id: hash of hardware and driver.
        environment_id: hash of hardware, driver and stack.
        commit: of the measured code; of a user's own script, the id of its code.
        reference: id of the frozen environment that the control ran in.
        repeats: number of repeats that count.
        settings: those that change the spread of its numbers: repeats planned, threads, patience.
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
    settings: str = ""
    variance: float | None = None
    control_variance: float | None = None

    @property
    def ok(self) -> bool:
        """Tell whether it has a number that counts."""
        return self.seconds is not None


@dataclass(frozen=True, slots=True)
class FreshRuns:
    """Fresh runs of a suspect, in pairs: seconds per step, and those of the control; NaN for what failed.

    Each has as many repeats as a night, because a baseline's spread is that of nights.
    """

    seconds: tuple[float, ...]
    control_s: tuple[float, ...]

    @property
    def count(self) -> int:
        """Return the number of runs that have a number."""
        return sum(seconds > 0 for seconds in self.seconds)


@dataclass(frozen=True, slots=True)
class Series:
    """A series, oldest night first.

    Attributes:
        planned: the newest night of the channel had planned it. A renamed or dropped case is not planned: its
            series ends, and nothing of it is missing.
    """

    key: SeriesKey
    nights: tuple[Observation, ...]
    planned: bool = True

    @property
    def changes(self) -> dict[int, tuple[str, ...]]:
        """Return the start of each segment, by index, with what changed: machine, reference, settings.

        The first segment starts at 0 without a change. An unknown value never starts one.
        """
        starts: dict[int, tuple[str, ...]] = {}
        machine, reference, settings = "", "", ""
        for index, night in enumerate(self.nights):
            new_machine = night.machine_id not in ("", machine or night.machine_id)
            new_reference = night.reference not in ("", reference or night.reference)
            new_settings = night.settings not in ("", settings or night.settings)
            if new_machine or new_reference or new_settings:
                starts[index] = (
                    ("machine",) * new_machine + ("reference",) * new_reference + ("settings",) * new_settings
                )
            machine, reference = night.machine_id or machine, night.reference or reference
            settings = night.settings or settings
        return starts

    @property
    def segment_start(self) -> int:
        """Return the index of the first night of the current segment: of one machine and one reference."""
        return max(self.changes, default=0)

    @property
    def segment(self) -> tuple[Observation, ...]:
        """Return the nights of the current segment."""
        return self.nights[self.segment_start :]
