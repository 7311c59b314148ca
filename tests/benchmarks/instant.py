"""Stands in for `python -m workloads`: answers with a record at once, so that only orchestration takes time."""

import argparse

from workloads.harness.engine.timing import summarise
from workloads.harness.records.case import Case, parse_size
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import now_text

parser = argparse.ArgumentParser()
for name in ("command", "workload"):
    parser.add_argument(name)
for name in ("size", "precision", "run", "hardware", "device"):
    parser.add_argument(f"--{name}")
for name in ("repeat", "order", "seed", "threads"):
    parser.add_argument(f"--{name}", type=int)
asked, _ = parser.parse_known_args()  # how it would be measured is no matter here
record = Record(
    run=asked.run,
    hardware=asked.hardware,
    case=Case.of(asked.workload, parse_size(asked.size), asked.precision),
    repeat=asked.repeat,
    verdict=Verdict.OK,
    order=asked.order,
    seed=asked.seed,
    started_at=now_text(),
    threads=1,
    wall=summarise(tuple(1e-3 + i * 1e-8 + asked.order * 1e-11 for i in range(300)), 1, True, True),
)
print(record.to_json())
