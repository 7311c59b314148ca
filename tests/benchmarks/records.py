"""Predictions between the machines of records, each case held out, in both directions.

`python -m tests.benchmarks.records FILE…` takes files with a record a line. It prints, by direction and
knowledge of the predicted machine, how many measured times are in their 90 % intervals, and the errors.
"""

import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from tasks.findings.device.host_speed import LAUNCHES, PYTHON
from tasks.imported import run_of
from tasks.planning.hardware import Hardware
from tasks.prediction.evidence import Evidence, evidence_in
from tasks.prediction.step import Prediction, predict
from tasks.results.repeats import Repeats
from workloads.harness.records.record import Record

Truth = tuple[Prediction, float]
KNOWN = ("data sheets", "and both hosts", "and the other cases")


def evidence_from(paths: Sequence[Path]) -> Evidence:
    records = [Record.from_json(line) for path in paths for line in path.read_text().splitlines() if line]
    plan, numbered = run_of(records, {})
    return evidence_in(plan.hardware, numbered)


def without_host(cell: Repeats) -> Repeats:
    usable = tuple(
        replace(r, probes={k: v for k, v in r.probes.items() if k not in (LAUNCHES, PYTHON)})
        for r in cell.usable
    )
    return replace(cell, usable=usable)


def known_of(evidence: Evidence, target: Hardware, held_out: Repeats, known: str) -> Evidence:
    """Return all evidence but that of the case on the target, or less."""
    rest = [(m, c) for m, c in evidence.cells if m.name != target.name or c.cell.case != held_out.cell.case]
    if known == KNOWN[2]:
        return Evidence(tuple(rest))
    hosts = [(m, c) for m, c in evidence.cells if m.name == target.name] if known == KNOWN[1] else []
    return Evidence(tuple((m.model_copy(update={"gpu": None}), c) for m, c in hosts))


def rows(evidence: Evidence, source: Hardware, target: Hardware, known: str) -> Iterator[Truth]:
    """Yield the prediction and the measured mean of each case that both machines measured."""
    truths = {c.cell.case: c for m, c in evidence.cells if m.name == target.name}
    for machine, cell in evidence.cells:
        truth = truths.get(cell.cell.case)
        if machine.name == source.name and truth and truth.compute_s:
            side = cell if known != KNOWN[0] else without_host(cell)
            row = predict(side, source, target, known_of(evidence, target, cell, known))
            yield row, statistics.fmean(truth.compute_s)


def main(paths: Sequence[Path]) -> None:
    """Print a row for each direction and kind of knowledge, then the last kind's predictions."""
    evidence = evidence_from(paths)
    machines = {machine.name: machine for machine, _ in evidence.cells}
    for source, target in permutations(machines.values(), 2):
        for known in KNOWN:
            found = [*rows(evidence, source, target, known)]
            made = [(row.step_s, s) for row, s in found if row.step_s and row.step_s.low and row.step_s.high]
            held = sum(step.low <= s <= step.high for step, s in made)
            errors = sorted(abs(step.value / s - 1) for step, s in made) or [math.nan]
            print(
                f"{source.name} to {target.name}, {known}: {held} of {len(made)} within, error {errors[len(errors) // 2]:.1%} "
                f"in the middle, {errors[-1]:.1%} at most; {len(found) - len(made)} not predicted"
            )
        for row, s in found:
            print(
                f"  {row.case.id}: {row.step_s or row.refused}, measured {s:.4g} s; {'; '.join(row.rests_on)}"
            )


if __name__ == "__main__":
    main([*map(Path, sys.argv[1:])])
