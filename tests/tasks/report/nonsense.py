"""A good run, and its report once records are changed."""

import json
import math
from dataclasses import replace

from tasks.gather import judged
from tasks.publish import summary
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.info import RunInfo
from tasks.report.text.comparison import full_text
from tasks.store.frames import results_table
from tests.tasks.examples.records import record
from workloads.harness.records.files import record_path
from workloads.harness.records.finite_json import to_json
from workloads.harness.records.record import Record, Timing

HARDWARE = ("local-cpu-1", "local-cpu")


HUGE = "<script>alert('x')</script> & ☃ \u202e\u2028" + "é" * 100_000


INFO = RunInfo("a-run", "quick", "2026-07-24T02:00:11+00:00", 1, "0.1.0")


def good(plan):
    cases = [planned.case for planned in plan.cases if planned.workload == "matmul"][:2]
    return [
        record(0.01 * (1 + place) * (2 - side) * (1 + 0.001 * repeat), case, hardware, repeat, run=plan.run)
        for side, hardware in enumerate(HARDWARE)
        for place, case in enumerate(cases)
        for repeat in (0, 1)
    ]


def fill(store, records):
    for made in records:
        path = store.folder / "records" / record_path(made)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made.to_json())


def said(store):
    """Return the report's text without pictures; fail unless it is made of plain numbers."""
    records, odd = store.records()
    comparison = judged(records, store)
    for frame in (comparison_table(grid_of((), comparison)), results_table(records, comparison.refusals)):
        for column in frame.select_dtypes("number"):
            assert not any(math.isinf(value) for value in frame[column].dropna())
    results = json.loads(to_json(benchmark_json(records, grid_of(records, comparison), INFO)))
    assert len(results["rows"]) == len(records)
    summary(comparison, store.plan, store.folder / "report.html", "https://report")
    text = full_text(records, grid_of(records, comparison))
    assert not {"nan", "inf"} & set(text.lower().replace("(", " ").split())
    return " ".join([*text.split(), *odd])


def scaled(made: Record, factor: float, what: set[str]) -> Record:
    def times(timed: Timing) -> Timing:
        low, high = sorted((timed.ci_low_s * factor, timed.ci_high_s * factor))
        return replace(
            timed,
            samples_s=tuple(s * factor for s in timed.samples_s),
            median_s=timed.median_s * factor,
            ci_low_s=low,
            ci_high_s=high,
        )

    changes = {
        "wall": lambda: {"wall": times(made.wall)},
        "work": lambda: {
            "work": replace(made.work, units=factor, flops=made.work.flops * factor, bytes=made.work.bytes * factor)
        },
        "phases": lambda: {
            "phases_s": {name: s * factor for name, s in made.phases_s.items()},
            "wall_s": made.wall_s * factor,
            "unattributed_s": made.unattributed_s * factor,
        },
    }  # fmt: skip
    return replace(made, **{key: value for name in what for key, value in changes[name]().items()})
