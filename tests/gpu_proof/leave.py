"""A proof's output in its folder: proof.json and console.txt at the end, other files during the run."""

import json
import shutil
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gpu_proof.bench import ROOT, Bench
from tests.gpu_proof.table import NOT_RUN, Row, counts, summary
from workloads.harness.probes.frozen import content_id

CARD = "card"  # the step that every call takes
LEFT = ("records.jsonl", "proof.json", "log.txt", "dmon.txt", "console.txt")


def harness_id() -> str:
    """Return the hash of all measuring code: a proof is of this code."""
    return content_id(ROOT / "workloads", {})


@dataclass(frozen=True)
class Earlier:
    rows: tuple[Row, ...] = ()
    card: str = ""
    clocks: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def done(self) -> set[str]:
        return {row.step for row in self.rows}


def earlier(folder: Path, device: str) -> Earlier:
    """Read an earlier call's folder; a step with missing parts runs again.

    Raises:
        SystemExit: there is nothing, or it is of other code or another device.
    """
    try:
        proof = json.loads((folder / "proof.json").read_text())
    except OSError as error:
        sys.exit(f"there is no proof in {folder} to go on with: {error}")
    if (proof["content_id"], proof["device"]) != (harness_id(), device):
        sys.exit(f"the proof in {folder} is of other code or of another device: begin anew, without --resume")
    rows = [Row(**row) for row in proof["rows"]]
    anew = {CARD, *(row.step for row in rows if row.state == NOT_RUN)}
    kept = tuple(row for row in rows if row.step not in anew)
    return Earlier(kept, proof["card"].get("name", ""), proof["clocks"], proof["seconds"])


@dataclass
class Report:
    bench: Bench
    started: datetime
    earlier: Earlier = field(default_factory=Earlier)
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
        if self.written:
            return
        self.written = True
        seconds = self.earlier.seconds + (datetime.now(UTC) - self.started).total_seconds()
        self.rows = [*self.earlier.rows, *self.rows]
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


def made_ready(folder: Path, resumed: Path | None) -> None:
    """Make the folder, empty unless an earlier proof continues."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in LEFT:
        if resumed is None:
            (folder / name).unlink(missing_ok=True)
        elif not resumed.samefile(folder) and (resumed / name).is_file():
            shutil.copy(resumed / name, folder / name)
    with open(folder / "log.txt", "a") as log:
        log.write(f"{' '.join(sys.argv)}\n")
