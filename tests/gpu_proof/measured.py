"""One measurement by the command that users have, and the record that it leaves."""

import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.gpu_proof.bench import Bench

LIMIT_S = 240.0


class Measured(NamedTuple):
    """A record as JSON has it; None where there is none, for the reason in `why`."""

    record: dict[str, Any] | None
    why: str
    seconds: float

    @property
    def verdict(self) -> str:
        return self.record["verdict"] if self.record else "none"

    @property
    def told(self) -> str:
        """The verdict with its reasons, or why there is none."""
        return f"{self.verdict} {'; '.join(self.record['reasons'])}"[:160] if self.record else self.why[:160]


def measure(
    bench: Bench,
    workload: str,
    size: str,
    precision: str = "fp32",
    options: str = "",
    environ: Mapping[str, str] | None = None,
) -> Measured:
    """Measure one case in a process of its own, as quick runs do; its record is kept."""
    named = f"run {workload} --size {size} --precision {precision} --device {bench.device}"
    return command(bench, f"{named} --quick --run proof {options}", environ)


def command(bench: Bench, arguments: str, environ: Mapping[str, str] | None = None) -> Measured:
    """Run `python -m workloads` with these arguments; return the last record that it prints."""
    ended = bench.run([sys.executable, "-m", "workloads", *arguments.split()], LIMIT_S, environ)
    lines = [line for line in ended.out.splitlines() if line.startswith("{")]
    if not lines:
        return Measured(None, ended.why, ended.seconds)
    with open(bench.out / "records.jsonl", "a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return Measured(json.loads(lines[-1]), "", ended.seconds)
