"""One measurement by the user's command, and its record."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tests.gpu_proof.bench import Bench
from workloads.command.measure import repeat_of
from workloads.command.parser import parser
from workloads.harness.records.case import parse_size
from workloads.harness.records.record import Verdict
from workloads.harness.registry import find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat

LIMIT_S = 240.0
MEASURES = ("warm_up", "samples", "compile")  # phases of the measurement itself


class Measured(NamedTuple):
    """A record as JSON, or None for the reason in `why`."""

    record: dict[str, Any] | None
    why: str
    seconds: float

    @property
    def verdict(self) -> str:
        return self.record["verdict"] if self.record else "none"

    @property
    def told(self) -> str:
        return f"{self.verdict} {'; '.join(self.record['reasons'])}"[:160] if self.record else self.why[:160]


def measure(
    bench: Bench,
    workload: str,
    size: str,
    precision: str = "fp32",
    options: str = "",
    environ: Mapping[str, str] | None = None,
) -> Measured:
    """Measure one case in its own process, like quick runs; keep its record."""
    named = f"run {workload} --size {size} --precision {precision} --device {bench.device}"
    return command(bench, f"{named} --quick --run proof {options}", environ)


def measure_forked(
    bench: Bench, workload: str, size: str, precision: str = "fp32", options: str = ""
) -> Measured:
    words = f"run {workload} --size {size} --precision {precision} --device {bench.device}"
    chosen = parser("").parse_args(f"{words} --quick --repeat 2 --run proof {options}".split())
    case = find(workload).case(parse_size(chosen.size), chosen.precision, chosen.mode)
    limit_s = 0.0 if bench.stopped else min(LIMIT_S, bench.left_s())
    repeat = replace(repeat_of(chosen, case), timeout_s=max(limit_s, 0.1))
    begun = time.monotonic()
    with whole_box(bench.log) as lock:
        bench.log(f"$ {repeat.id}, forked")
        record = run_repeat(repeat, lock, bench.log, start=bench.forks.start)
    if record.verdict is Verdict.TIMEOUT and limit_s < LIMIT_S:  # it says nothing of the card
        bench.stop("no time was left")
    if record.inherited_s:
        bench.costs_s.append(record.wall_s - sum(record.phases_s.get(name, 0.0) for name in MEASURES))
    text = record.to_json()
    _keep(bench, [text])
    return Measured(json.loads(text), "", time.monotonic() - begun)


def command(bench: Bench, arguments: str, environ: Mapping[str, str] | None = None) -> Measured:
    ended = bench.run([sys.executable, "-m", "workloads", *arguments.split()], LIMIT_S, environ)
    lines = [line for line in ended.out.splitlines() if line.startswith("{")]
    if not lines:
        return Measured(None, ended.why, ended.seconds)
    _keep(bench, lines)
    return Measured(json.loads(lines[-1]), "", ended.seconds)


def _keep(bench: Bench, lines: Sequence[str]) -> None:
    with open(bench.out / "records.jsonl", "a") as file:
        file.writelines(f"{line}\n" for line in lines)
