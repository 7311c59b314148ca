"""Predicted and real times of jobs, in a file and in a table."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from workloads.harness.records.text import duration, table

GOAL = 9  # of ten


@dataclass(frozen=True, slots=True)
class JobRow:
    """A script's job: its predicted and its real time.

    Attributes:
        seconds, low_s, high_s: predicted, with the 95 % interval; None without a prediction.
        real_s: of the plain process; None if it failed.
        measured_s: of the measurement.
        verdict, reasons: of the record; `failed`: the plain run's error.
        others: cores used by other processes, during the measurement and the run.
        slower: share by which the CPU was slower during the run than during the measurement.
    """

    script: str
    kind: str
    length: str
    seconds: float | None
    low_s: float | None
    high_s: float | None
    real_s: float | None
    measured_s: float
    verdict: str
    reasons: Sequence[str] = ()
    failed: str = ""
    others: Sequence[float] = ()
    slower: float | None = None

    @property
    def inside(self) -> bool:
        if self.low_s is None or self.high_s is None or self.real_s is None:
            return False
        return self.low_s <= self.real_s <= self.high_s

    @property
    def ratio(self) -> float:
        """Predicted over real time; NaN if either is missing."""
        return self.seconds / self.real_s if self.seconds and self.real_s else math.nan


def add(file: Path, row: JobRow) -> None:
    """Append a row at once, so that an interrupted run keeps it."""
    with file.open("a") as lines:
        lines.write(json.dumps(asdict(row)) + "\n")


def kept(file: Path) -> list[JobRow]:
    return [JobRow(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def report(rows: Iterable[JobRow]) -> str:
    rows = list(rows)
    head = [
        "script",
        "kind",
        "job",
        "predicted",
        "interval",
        "real",
        "inside",
        "predicted / real",
        "measured in",
        "verdict",
        "others' cores",
        "CPU slower",
    ]
    body = [
        [
            row.script,
            row.kind,
            row.length,
            _duration(row.seconds),
            f"{_duration(row.low_s)} – {_duration(row.high_s)}",
            row.failed or _duration(row.real_s),
            "yes" if row.inside else "no",
            f"{row.ratio:.3f}",
            _duration(row.measured_s),
            row.verdict,
            " / ".join(f"{cores:.2f}" for cores in row.others),
            "" if row.slower is None else f"{row.slower:+.1%}",
        ]
        for row in rows
    ]
    inside = sum(row.inside for row in rows)
    return f"{table([head, *body])}\n{inside} of {len(rows)} real times inside of the interval (goal {GOAL} of 10)"


def _duration(value_s: float | None) -> str:
    return "–" if value_s is None else duration(value_s)
