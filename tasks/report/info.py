"""The facts of a run in its report."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The facts of a run that its records do not have.

    Attributes:
        run: such as `2026-07-24-nightly-3f2a`, also its folder.
        started_at: ISO 8601 with the time zone.
        seed: of the order of cells and repeats.
        gridbench_version: that measured and compared.
        title: heading of the page; empty for the suite's name.
    """

    run: str
    suite: str
    started_at: str
    seed: int
    gridbench_version: str
    title: str = ""

    @property
    def heading(self) -> str:
        """Return the heading of the page."""
        return self.title or self.suite
