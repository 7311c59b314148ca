"""A case on one piece of hardware through the nights of one channel: what history is made of."""

from dataclasses import dataclass
from datetime import datetime

OK = "ok"
MISSING = "missing"  # the verdict of a night that had planned the cell and has no record of it


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """What tells a series from every other.

    Attributes:
        case: its id, such as `matmul/n=5000/fp32`.
        channel: of the software that is followed, such as `main` or `release`.
    """

    hardware: str
    case: str
    channel: str

    @property
    def id(self) -> str:
        """Readable and stable, such as `local-cpu/matmul/n=5000/fp32@main`."""
        return f"{self.hardware}/{self.case}@{self.channel}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What a series was in one night. Texts are empty where they are unknown.

    Attributes:
        at: when the night was planned, UTC.
        seconds: per step, exp of the median of the logs of its ok repeats; None where none is ok.
        control_s: the same of the control that was measured beside them, where that was ok too.
        verdict: `ok` where one repeat was, else the commonest verdict; `missing` where there is no record.
        machine_id: hash of hardware and driver.
        environment_id: hash of hardware, driver and stack.
        commit: of the code that was measured.
        reference: id of the frozen environment that the control ran in.
        repeats: how many were ok.
        settings: how it was measured, where that moves its spread: repeats planned, threads, patience.
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

    @property
    def ok(self) -> bool:
        """Whether it has a number that counts."""
        return self.seconds is not None


@dataclass(frozen=True, slots=True)
class Series:
    """A series, oldest night first.

    Attributes:
        asked: whether the newest night of the channel had planned it. A case that was renamed or dropped is
            not: its series ends, and nothing of it is missing.
    """

    key: SeriesKey
    nights: tuple[Observation, ...]
    asked: bool = True

    @property
    def changes(self) -> dict[int, tuple[str, ...]]:
        """Where a segment starts, by index: which of machine, reference, settings is another than before.

        The first segment starts at 0 without a change. What is unknown never starts one.
        """
        found: dict[int, tuple[str, ...]] = {}
        machine, reference, settings = "", "", ""
        for index, night in enumerate(self.nights):
            moved = night.machine_id not in ("", machine or night.machine_id)
            renewed = night.reference not in ("", reference or night.reference)
            reset = night.settings not in ("", settings or night.settings)
            if moved or renewed or reset:
                found[index] = ("machine",) * moved + ("reference",) * renewed + ("settings",) * reset
            machine, reference = night.machine_id or machine, night.reference or reference
            settings = night.settings or settings
        return found

    @property
    def segment_start(self) -> int:
        """Index of the first night of the current segment: of one machine and one reference."""
        return max(self.changes, default=0)

    @property
    def segment(self) -> tuple[Observation, ...]:
        """The nights of the current segment."""
        return self.nights[self.segment_start :]
