from dataclasses import replace

from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.bisect import NextMeasurement
from tasks.regressions.bisect_runs import rounds_of
from tasks.store.store import Store
from tests.tasks.examples.records import record
from workloads.harness.records.record import Verdict


def test_the_reason_is_that_of_the_processes_that_are_wrong_and_not_of_one_that_was_noisy(tmp_path):
    store = Store.create(
        tmp_path, make_plan(RunRequest(suite="quick", hardware=("local-cpu",), repeats=3, seed=7))
    )
    cell = store.plan.cells[0]
    told = [(Verdict.NOISY, "others used it"), (Verdict.WRONG, "it differs"), (Verdict.WRONG, "it differs")]
    for number, (verdict, reason) in enumerate(told, 1):
        one = record(0.01, cell.case, cell.hardware, number, verdict=verdict, reasons=(reason,))
        store.add(replace(one, run=store.plan.run))
    (found,) = rounds_of(store, NextMeasurement(2))
    assert found.broken and found.reason.startswith("wrong: it differs (")
