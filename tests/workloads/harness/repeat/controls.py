"""Repeats with a control."""

import json
import sys

from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat

CASE = Case.of("matmul", {"n": 64})


def repeat_of(number=1, **more):
    return Repeat("a-run", "a-box", CASE, repeat=number, **{"threads": 1, "timeout_s": 300.0, **more})


def printing(number=1, **changes):
    wall = {
        "samples_s": [2.0],
        "block": 1,
        "median_s": 2.0,
        "ci_low_s": None,
        "ci_high_s": None,
        "p95_s": 2.0,
        "max_s": 2.0,
        "outliers_mild": 0,
        "outliers_severe": 0,
        "steady": True,
        "precision_reached": True,
    }
    raw = json.loads(Record("a-run", "a-box", CASE, number, Verdict.OK).to_json())
    raw |= {"wall": wall, "environment_id": "here", "environment": {"reference": None}, **changes}
    return (
        sys.executable,
        "-c",
        f"import sys; print({json.dumps(raw)!r}); print(*sys.argv, file=sys.stderr)",
    )


def frozen(number=1, **changes):
    return printing(number, environment={"reference": "abc"}, environment_id="there", **changes)
