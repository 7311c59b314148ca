"""What a proof leaves in its folder: proof.json and console.txt; the others are written as it goes."""

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gpu_proof.bench import ROOT, Bench
from tests.gpu_proof.table import Row, counts, summary
from workloads.harness.probes.frozen import content_id

LEFT = ("records.jsonl", "proof.json", "log.txt", "dmon.txt", "console.txt")


def harness_id() -> str:
    """Return the hash of all that measures, whatever it runs with: a proof is of this code."""
    return content_id(ROOT / "workloads", {})


@dataclass
class Report:
    """The rows so far, said as they come and kept in the end, once."""

    bench: Bench
    started: datetime
    rows: list[Row] = field(default_factory=list)
    written: bool = False

    def say(self, text: str) -> None:
        print(text, flush=True)
        with open(self.bench.out / "console.txt", "a") as file:
            file.write(f"{text}\n")

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.say(row.line)

    def write(self) -> None:
        """Write proof.json and print the table."""
        if self.written:
            return
        self.written = True
        seconds = (datetime.now(UTC) - self.started).total_seconds()
        (self.bench.out / "proof.json").write_text(json.dumps(self.as_json(seconds), indent=1))
        self.say("\n" + summary(self.rows, seconds))

    def as_json(self, seconds: float) -> dict[str, Any]:
        return {
            "content_id": harness_id(),
            "date": self.started.isoformat(timespec="seconds"),
            "seconds": round(seconds),
            "device": self.bench.device,
            "card": self.bench.facts,
            "counts": counts(self.rows),
            "clocks": self.bench.clocks,
            "rows": [row._asdict() for row in self.rows],
        }


def clean(folder: Path) -> None:
    """Make the folder, without what an earlier proof left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in LEFT:
        (folder / name).unlink(missing_ok=True)
    (folder / "log.txt").write_text(f"{' '.join(sys.argv)}\n")
