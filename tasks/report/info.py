"""Facts of a run in its report."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Facts that a run's records do not have.

    Attributes:
        run: such as `2026-07-24-nightly-3f2a`, also its folder.
        started_at: ISO 8601 with zone.
        title: the suite's name if empty.
    """

    run: str
    suite: str
    started_at: str
    seed: int
    gridbench_version: str
    title: str = ""

    @property
    def heading(self) -> str:
        return self.title or self.suite
