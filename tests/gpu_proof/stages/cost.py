"""The cost of forked records so far, without their measurement."""

import statistics
from collections.abc import Iterator

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import FAIL, SHOWN, Row

GOAL_S = 3.0


def look(bench: Bench) -> Iterator[Row]:
    name, costs_s = "a forked record without its measurement: median seconds", bench.costs_s
    if not costs_s:
        yield Row("cost", name, FAIL, "none was forked")
        return
    text = f"{statistics.median(costs_s):.1f} of {len(costs_s)}, {max(costs_s):.1f} at most (goal {GOAL_S:g})"
    yield Row("cost", name, SHOWN, text)


def steps(bench: Bench) -> list[Step]:
    return [Step("cost", 0, look)]
