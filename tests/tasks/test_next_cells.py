import asyncio

import pytest

from tasks.delivery.pace import Pace
from tasks.dispatch.dispatcher import Dispatcher
from tasks.findings.outlook import Outlook
from tasks.gather import judged
from tasks.next_cells import first_cells, next_cells
from tasks.planning.plan import PlannedCase
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store
from tests.tasks.dispatch.fake_prefect import installed
from tests.tasks.prediction.market import record_on
from workloads.harness.records.case import Case

CASE = PlannedCase.of(Case.of("gpt2_train", {"millions": 355, "batch": 8, "length": 1024}, "bf16"), None)
TRUE_S = {  # near the ratios of the data sheets to an L4's 0.7 s
    "aws-g6.xlarge": 0.7,
    "aws-g5.xlarge": 0.52,
    "gke-a100-40": 0.17,
    "gke-a100-80": 0.15,
    "aws-p5.4xlarge": 0.066,
    "aws-g6e.xlarge": 0.30,
    "aws-p4d.24xlarge": 0.17,  # eight GPUs, of which one works
}


@pytest.fixture
def api(monkeypatch):
    return installed(monkeypatch, lambda repeat: record_on(repeat, TRUE_S[repeat.hardware]))


@pytest.fixture
def store(tmp_path):
    request = RunRequest(suite="quick", hardware=[*TRUE_S], repeats=2, seed=7, shortlist=True)
    plan = make_plan(request).model_copy(update={"cases": (CASE,), "skips": ()})
    return Store.create(tmp_path / "results", plan)


async def bench(api, store, budget_usd=None, most=99):
    said = []

    async def serve():
        while True:
            for job in [job for job in api.jobs.values() if not job.state.is_final()]:
                api.complete(job)
            await asyncio.sleep(0.02)

    worker = asyncio.create_task(serve())
    async with (
        asyncio.timeout(60),
        Dispatcher(store, budget_usd, said.append, pace=Pace(poll_s=0.05)) as lanes,
    ):
        cells = first_cells(store.plan)
        while cells and most:
            await asyncio.gather(*map(lanes.records_of, cells))
            assert lanes.total == len(lanes.arrived), "of the machines so far"
            cells, most = await next_cells(lanes), most - 1
    worker.cancel()
    return said


def measured(store):
    return {record.hardware for record in store.records()[0]}


async def test_only_machines_that_might_be_better_are_measured_also_by_a_resumed_run(api, store):
    assert "aws-g6.xlarge is measured first" in store.plan.notes[-1]
    said = await bench(api, store, most=2)
    half = measured(store)
    assert any(sentence.startswith("To find the fastest, measure aws-p5.4xlarge next") for sentence in said)
    assert half == {"aws-g6.xlarge", "aws-p5.4xlarge"}
    said = await bench(api, store)
    assert half <= measured(store) < {*TRUE_S} and said[-1].startswith("the shortlist ends"), said
    records = store.records()[0]
    assert len(records) == 2 * len(measured(store)), "nothing was measured twice"
    found = judged(records, store)
    names = {row.hardware for row in found.finding(Outlook).rows}
    assert names.isdisjoint(measured(store)) and {*TRUE_S} - measured(store) <= names
    assert any(row.reach.startswith("ssh://…?usd=") for row in found.finding(Outlook).rows), "offers, too"
    assert not any(name in sentence for name in names for sentence in found.answer)


async def test_a_budget_too_small_for_further_cells_is_reported(api, store):
    said = await bench(api, store, budget_usd=0.01)
    assert measured(store) == {"aws-g6.xlarge"} and "cost more than the rest of the budget" in said[-1]
