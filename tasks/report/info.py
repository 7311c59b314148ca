"""What a report says of the run itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The facts of a run that no record holds.

    Attributes:
        run: its id, such as `2026-07-24-nightly-3f2a`; the results folder has the same name.
        suite: name of the suite that was measured.
        started_at: when it started, ISO 8601 with the zone.
        seed: the seed that shuffled the order of cells and repeats.
        gridbench_version: version of this project that measured and compared.
    """

    run: str
    suite: str
    started_at: str
    seed: int
    gridbench_version: str
