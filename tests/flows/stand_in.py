"""Shared code of scripts that replace `python -m workloads`."""

import argparse

from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.records.case import Case, parse_size
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import now_text


def asked(*before):
    """Return the arguments of one repeat, after the script's own."""
    parser = argparse.ArgumentParser()
    for name in (*before, "command", "workload"):
        parser.add_argument(name)
    for name in ("size", "precision", "run", "hardware"):
        parser.add_argument(f"--{name}")
    for name in ("repeat", "order", "seed"):
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_known_args()[0]


def case_of(repeat):
    return Case.of(repeat.workload, parse_size(repeat.size), repeat.precision)


def answer(repeat, samples, **facts):
    record = Record(
        run=repeat.run,
        hardware=repeat.hardware,
        case=case_of(repeat),
        repeat=repeat.repeat,
        verdict=Verdict.OK,
        order=repeat.order,
        seed=repeat.seed,
        started_at=now_text(),
        threads=1,
        wall=summarise(samples, 1, True, True),
        phases_s={"samples": sum(samples)},
        wall_s=sum(samples),
        **facts,
    )
    print(record.to_json())
