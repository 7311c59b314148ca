"""Predicted times of whole jobs against the clock: twenty scripts, each measured and run to its end.

`python -m tests.benchmarks job-time [--minutes 2.3] [--only SCRIPT…] [--out FOLDER]`, 80 minutes on two idle
cores. Results are added to FOLDER/rows.jsonl with their records; an interrupted run continues.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from tests.benchmarks.jobs.rows import JobRow, add, kept, report
from workloads.harness.probes import cpu

Done = TypeVar("Done")
HERE, ROOT = Path(__file__).parent, Path(__file__).parents[3]
SCRIPTS = HERE / "scripts"
MINUTES, LONG = (
    2.3,
    100_000,
)  # of each job, so that all takes 80; and a length that no look at its steps reaches


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks job-time")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each job, about")
    parser.add_argument("--only", nargs="+", metavar="SCRIPT", help="such as gan rnn")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "results" / f"job-times-{datetime.now(UTC):%m%d-%H%M}"
    )
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "rows.jsonl"
    done = {row.script for row in kept(file)}
    for number, job in enumerate(tomllib.loads((HERE / "jobs.toml").read_text())["jobs"]):
        script = job["run"].partition(".")[0]
        if script not in done and script in (options.only or [script]):
            row, record = row_of(job, script, options.minutes, is_measured_first=number % 2 == 0)
            (options.out / f"{script}.json").write_text(json.dumps(record))
            add(file, row)
            print(report(kept(file)[-1:]), flush=True)
    print(report(kept(file)))


def row_of(
    job: Mapping[str, Any], script: str, minutes: float, is_measured_first: bool
) -> tuple[JobRow, dict[str, Any]]:
    """Measure and run a job in either order: a machine can be slow for longer than a job lasts.

    Returns:
        its row and its record.
    """
    length = length_of(job, minutes)
    if is_measured_first:
        (record, measured_s), one = watched(lambda: measured(job, length))
        (real_s, failed), other = watched(lambda: run(job, length))
    else:
        (real_s, failed), other = watched(lambda: run(job, length))
        (record, measured_s), one = watched(lambda: measured(job, length))
    predicted = (record["script"] or {}).get("job") or {}
    row = JobRow(
        script,
        job["kind"],
        f"{length} {job['unit']}",
        predicted.get("seconds"),
        predicted.get("low_s"),
        predicted.get("high_s"),
        real_s,
        measured_s,
        record["verdict"],
        record["reasons"],
        failed,
        (one.others, other.others),
        other.canary_s / one.canary_s - 1,
    )
    return row, record


@dataclass(frozen=True)
class MachineReading:
    """Load by others, and seconds of a fixed loop before and after."""

    others: float
    canary_s: float


def watched(work: Callable[[], Done]) -> tuple[Done, MachineReading]:
    """Return the result of some work, and the machine's reading meanwhile."""
    before, canary_s = cpu.counters(), cpu.canary_s()
    done = work()
    readings, _ = cpu.delta(before, cpu.counters())
    return done, MachineReading(readings["foreign_cores"], (canary_s + cpu.canary_s()) / 2)


def length_of(job: Mapping[str, Any], minutes: float) -> int:
    """Return the length by which a job takes about these minutes here, from a brief look at its steps."""
    record, _ = measured(job, LONG, "--brief")
    seen, step_s = record["script"], record["wall"]["mean_s"]
    unit_s = step_s * (seen["epoch_steps"] if job["unit"] == "epochs" else 1)
    return max(round((60 * minutes - seen["first_step_s"]) / unit_s), 1)


def measured(job: Mapping[str, Any], length: int, *how: str) -> tuple[dict[str, Any], float]:
    with tempfile.TemporaryDirectory() as out:
        asked = [f"--folder={SCRIPTS}", *(how or (f"--{job['unit']}", str(length)))]
        began_s = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "workloads", "script", *asked, "--", *command(job, length, out)],
            cwd=ROOT,
            env=environ(out),
            capture_output=True,
            text=True,
        )
        took_s = time.perf_counter() - began_s
    if not done.stdout.strip():
        raise SystemExit(f"{job['run']} was not measured: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1]), took_s


def run(job: Mapping[str, Any], length: int) -> tuple[float | None, str]:
    """Run a job to its end without hooks; return its seconds, or None and its last words."""
    with tempfile.TemporaryDirectory() as out, open(Path(out, "errors"), "w+") as errors:
        began_s = time.perf_counter()
        words = [sys.executable, *command(job, length, out)]
        code = subprocess.run(
            words, cwd=SCRIPTS, env=environ(out), stdout=subprocess.DEVNULL, stderr=errors
        ).returncode
        took_s = time.perf_counter() - began_s
        errors.seek(0)
        said = errors.read().strip().splitlines()[-1:]
    return (None, f"exit code {code}: {' '.join(said)}") if code else (took_s, "")


def command(job: Mapping[str, Any], length: int, out: str) -> list[str]:
    return [word.format(length=length, out=out) for word in shlex.split(job["run"])]


def environ(out: str) -> dict[str, str]:
    """Return the environment of both ways, without a cache of compiled code."""
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{out}/compiled"}


if __name__ == "__main__":
    main(sys.argv[1:])
