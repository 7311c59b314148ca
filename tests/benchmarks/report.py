"""Compare and report over 1,000, 10,000 and 100,000 records: time and memory grow at most like the records.

Each size has its own process, because peak memory never falls within one. Other numbers of records: `python
-m tests.benchmarks.report 1000 4000`.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tasks.findings.compare import compare
from tasks.report.info import RunInfo
from tasks.report.write import write_report
from tasks.results.model import Machine
from tests.benchmarks.stack import ROOT
from tests.tasks.examples.records import failed, record
from workloads.harness.probes.memory import peak_rss_bytes
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Record, Verdict, Work

RECORDS = (1_000, 10_000, 100_000)
MACHINES, REPEATS, SIZES = 5, 2, 8
GOAL = 1.25  # of the time per record at the smallest number, which is noisy; memory has no noise
RUN = RunInfo("2026-07-24-large", "large", "2026-07-24T02:00:11+00:00", 1, "0.1.0")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds, peak bytes with and without the records, bytes of the page."""

    records: int
    compare_s: float
    report_s: float
    made_bytes: int
    peak_bytes: int
    page_bytes: int


def machines() -> tuple[Machine, ...]:
    return tuple(
        Machine(f"machine-{i}", 1.0 + i, "stated assumption", i, spot_usd_per_hour=0.4 * i or None)
        for i in range(MACHINES)
    )


def many_records(count: int) -> list[Record]:
    """Return records: workloads of eight sizes, 10 % of several processes, 2 % of cells not ok."""
    made: list[Record] = []
    number = 0
    while len(made) < count:
        workload, place = divmod(number, SIZES)
        number += 1
        for machine in range(MACHINES):
            made += _cell(workload, place, machine)
    return made[:count]


def _cell(workload: int, place: int, machine: int) -> list[Record]:
    name, grouped = f"machine-{machine}", workload % 10 == 9
    size = {"processes": place + 1} if grouped else {"n": 100 * 2**place}
    case = Case.of(f"work_{workload:04}{'_strong' if grouped else ''}", size)
    if (7 * workload + 3 * place + machine) % 50 == 0:
        return [failed(Verdict.OUT_OF_MEMORY, "16 GiB of 16 GiB were in use", case, name)]
    units = 1.0 if grouped else 2.0**place
    work = Work(units, "images", 1e9 * units, 1e7 * units)
    chance = random.Random(f"{workload}/{place}/{machine}")
    mean_s = (0.3 if machine else 0.05) * 1e-3 + 1e-3 * units / (1 + machine) / (place + 1 if grouped else 1)
    repeats = []
    for repeat in range(REPEATS):
        seconds = mean_s * (1 + 0.01 * chance.random())
        ranks = tuple(Rank(r, "cpu", seconds, 2**28) for r in range(place + 1))
        group = Group("gloo", "strong", ranks, 0.1, 0.01) if grouped else None
        repeats.append(record(seconds, case, name, repeat, work=work, group=group))
    return repeats


def measure(count: int) -> Cost:
    made = many_records(count)
    before = peak_rss_bytes()
    started = time.process_time()
    comparison = compare(made, machines(), "machine-0")
    compared = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(Path(folder), made, comparison, RUN)
        written = time.process_time()
        size = page.stat().st_size
    return Cost(len(made), compared - started, written - compared, before, peak_rss_bytes(), size)


def main() -> None:
    run([int(word) for word in sys.argv[1:] if word.isdigit()] or RECORDS)


def run(sizes: tuple[int, ...] | list[int]) -> None:
    base: Cost | None = None
    for count in sizes:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.report", "--one", str(count)],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        cost = Cost(**json.loads(done.stdout.splitlines()[-1]))
        base = base or cost
        print(sentence(cost, base), flush=True)


def sentence(cost: Cost, base: Cost) -> str:
    grows = [
        f"{name} {getattr(cost, key) / cost.records / (getattr(base, key) / base.records):.2f}"
        for name, key in (("compare", "compare_s"), ("report", "report_s"), ("memory", "peak_bytes"))
    ]
    return (
        f"{cost.records} records: compare {cost.compare_s:.1f} s, report {cost.report_s:.1f} s, "
        f"peak {cost.peak_bytes / 2**20:.0f} MiB ({cost.made_bytes / 2**20:.0f} MiB with the records alone), "
        f"page {cost.page_bytes / 1e6:.1f} MB; a record of that at {base.records}: {', '.join(grows)} "
        f"(goal at most {GOAL})"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asdict(measure(int(sys.argv[2])))))
    else:
        main()
