import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect.states import AwaitingRetry, Completed, Pending, Running

from tasks.dispatch import job_clock
from tasks.dispatch.job_clock import LONGEST_S, SPARE_S, JobClock
from tasks.dispatch.lane import job_usd
from tests.tasks.dispatch.dispatched import Run, planned, serve, until
from workloads.harness.records.record import Verdict

LIMIT_S = 60


@pytest.fixture
def limited(store, plan):
    machine = plan.hardware[0]
    variables = machine.job_variables | {"timeout_s": LIMIT_S}
    return planned(store, plan, hardware=(machine.model_copy(update={"job_variables": variables}),))


@pytest.mark.parametrize("state", [AwaitingRetry(), Pending(), Running()])
async def test_a_job_whose_box_leaves_it_in_a_state_ends_after_its_time(api, limited, monkeypatch, state):
    monkeypatch.setattr(job_clock, "SPARE_S", 0.3 - LIMIT_S)
    async with Run(limited) as run:
        await until(lambda: api.jobs)
        stuck = api.job
        api.start(stuck)
        api.deliver(stuck, api.repeats(stuck)[:4])
        api._enter(stuck, state)
        await until(lambda: len(api.jobs) > 1)
        assert api.stopped(stuck) and len(run.lanes.arrived) == 4
        monkeypatch.setattr(job_clock, "SPARE_S", 900)
        task = asyncio.create_task(serve(api))
        assert len(await run.ended()) == 10
        task.cancel()
    assert any("after its timeout_s of 60 s" in line for line in run.said)


async def test_a_job_that_waits_for_a_retry_still_spends_the_budget(api, limited, told):
    machine = limited.plan.hardware[0]
    async with Run(limited, budget_usd=job_usd(machine, 0.5)) as run:
        await until(lambda: api.jobs)
        api.start(api.job)
        api._enter(api.job, AwaitingRetry())  # the server stops to count its time
        records = await run.ended()
        assert api.stopped(api.job) and {record.verdict for record in records} == {Verdict.CAPACITY}
    assert "budget_spent" in [name for name, *_ in told]


def flow_run(state, counted_s=0.0, **times):
    known = {"id": uuid4(), "name": "a lane", "parameters": {}, "start_time": None, "end_time": None}
    return SimpleNamespace(state=state, estimated_run_time=timedelta(seconds=counted_s), **known | times)


def test_an_adopted_job_has_the_time_that_the_server_has_counted():
    assert JobClock().ran_s(flow_run(Running(), 500)) == pytest.approx(500, abs=5)


def test_a_job_that_is_over_ran_from_its_start_to_its_end():
    now = datetime.now(UTC)
    run = flow_run(Completed(), 10, start_time=now - timedelta(hours=1), end_time=now)
    assert JobClock().ran_s(run) == pytest.approx(3600, abs=1)


@pytest.mark.parametrize("stated_s", [None, "soon", 100])
def test_a_job_without_a_time_limit_gets_the_longest_limit(stated_s):
    limit_s = stated_s if stated_s == 100 else LONGEST_S
    for ran_s, late in ((limit_s + SPARE_S - 60, False), (limit_s + SPARE_S + 60, True)):
        run = flow_run(Running(), ran_s, parameters={"timeout_s": stated_s})
        assert bool(JobClock().overrun(run)) is late
