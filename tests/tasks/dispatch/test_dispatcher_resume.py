import asyncio
from datetime import timedelta

import pytest
from prefect.states import Cancelled, Completed

from tasks.dispatch.dispatcher import stop_jobs
from tasks.measure import measure
from tasks.planning.plan import PlannedSkip
from tests.tasks.dispatch.dispatched import Run, planned, serve, until
from workloads.harness.records.record import Verdict


async def test_a_spent_budget_stops_the_lanes_and_a_resume_measures_the_rest(api, store, told):
    async with Run(store, budget_usd=1.0) as run:
        await until(lambda: api.jobs)
        api.start(api.job)
        api.deliver(api.job, api.repeats(api.job)[:3])
        await until(lambda: len(run.lanes.arrived) == 3)
        api.job.estimated_run_time = timedelta(hours=11)  # at 0.10 USD an hour
        records = await run.ended()
        assert run.lanes.spent_usd() == pytest.approx(1.1 + 0.1 * 10 / 3600) and api.stopped(api.job)
    assert told == [("budget_spent", 1.0, pytest.approx(1.1, abs=0.01))], "and no lane was lost"
    verdicts = [record.verdict for record in records]
    assert verdicts.count(Verdict.CAPACITY) == 17 and "budget of 1 USD" in str(records[-1].reasons)
    api.job.state = Cancelled()
    task = asyncio.create_task(serve(api))
    async with Run(store) as run:
        again = await run.ended()
    task.cancel()
    assert {record.verdict for record in again} == {Verdict.TIMEOUT} and len(store.records()[0]) == 20
    assert len(list(store.folder.rglob("*.capacity"))) == 17


async def test_a_free_machine_needs_no_budget(api, worker, store, plan):
    free = plan.hardware[0].price.model_copy(update={"usd_per_hour": 0.0})
    hardware = tuple(machine.model_copy(update={"price": free}) for machine in plan.hardware)
    planned(store, plan, hardware=hardware)
    async with Run(store, budget_usd=0.0) as run:
        assert {record.verdict for record in await run.ended()} == {Verdict.TIMEOUT}


async def test_many_small_jobs_are_all_paid_for(api, store, plan):
    one = plan.hardware[0].model_copy(update={"cells_per_job": 1})
    planned(store, plan, hardware=(one,))
    async with Run(store) as run:
        paid = set()
        while len(paid) < 10:
            await until(lambda: api.jobs and api.job.id not in paid)
            job = api.job
            api.start(job)
            job.estimated_run_time = timedelta(hours=1)
            api.deliver(job, api.repeats(job))  # and is not over yet when the next one is asked for
            paid.add(job.id)
            await asyncio.sleep(0.03)
        await run.ended()
        hours = 10 * (1 + one.start_s / 3600)  # and the milliseconds in which the clock went on
        assert run.lanes.spent_usd() == pytest.approx(one.price.usd_per_hour * hours, rel=1e-3)


async def test_a_resume_takes_over_a_live_job_and_asks_for_nothing_twice(api, store):
    async with Run(store) as run:
        await until(lambda: api.jobs)
        job = api.job
        api.start(job)
        api.deliver(job, api.repeats(job)[:4])
        await until(lambda: len(run.lanes.arrived) == 4)
        run.lanes._jobs.clear()  # killed: no process stops its job
        run.lanes._receiver.orders.clear()
    api.deliver(job, api.repeats(job)[4:6])
    async with Run(store) as run:
        await until(lambda: len(run.lanes.arrived) == 6)
        assert len(api.jobs) == 1
        task = asyncio.create_task(serve(api, but=[job.id]))
        api.deliver(job, api.repeats(job)[6:])
        job.state = Completed()
        assert len(await run.ended()) == 20
        task.cancel()
    asked = [repeat.id for one in api.jobs.values() for repeat in api.repeats(one)]
    assert len(asked) == len(set(asked)) == 20


async def test_a_resume_on_a_server_that_knows_nothing_of_the_run_goes_on_from_the_store(api, store, plan):
    done = plan.repeats_on(plan.hardware[0])
    for repeat in done:
        store.add(repeat.failed(Verdict.TIMEOUT, "earlier"))
    task = asyncio.create_task(serve(api))
    async with Run(store) as run:
        await run.ended()
    task.cancel()
    asked = {repeat.id for job in api.jobs.values() for repeat in api.repeats(job)}
    assert len(asked) == 10 and not asked & {repeat.id for repeat in done}


async def test_records_by_the_thousand_come_in_pages(api, store, plan):
    planned(store, plan, hardware=plan.hardware[:1], repeats=70)
    task = asyncio.create_task(serve(api))
    async with Run(store) as run:
        assert len(await run.ended()) == 350
    task.cancel()


async def test_a_job_that_has_delivered_everything_is_left_to_end_by_itself(api, alone):
    async with Run(alone) as run:
        await until(lambda: api.jobs)
        api.start(api.job)
        api.deliver(api.job, api.repeats(api.job))
        await run.ended()
    assert api.job.state.is_running()


async def test_leaving_in_a_hurry_stops_the_jobs(api, store):
    with pytest.raises(KeyError):
        async with Run(store):
            await until(lambda: api.jobs)
            api.start(api.job)
            raise KeyError
    assert api.job.state.is_cancelling()
    await stop_jobs(api, [api.job.id])
    assert api.job.state.is_cancelling(), "a worker that is about to stop it must still see so"


async def test_a_planned_skip_is_in_the_store_and_in_no_job(api, store, plan):
    case = plan.cases[0]
    skips = tuple(
        PlannedSkip(hardware=machine.name, case=planned, reason="too large")
        for machine in plan.hardware
        for planned in (plan.cases if machine.name == "local-cpu" else [case])
    )
    store = planned(store, plan, skips=skips)
    worker = asyncio.create_task(serve(api))
    async with Run(store) as run:
        records = await run.ended()
        states = [await measure.fn(cell, run.lanes) for cell in run.cells if cell.hardware == "local-cpu"]
    worker.cancel()
    assert {r.verdict for r in records if r.hardware == "local-cpu"} == {Verdict.SKIPPED}
    assert {s.name for s in states} == {"Skipped"} and all(s.is_completed() for s in states)
    asked = [repeat for job in api.jobs.values() for repeat in api.repeats(job)]
    assert {r.hardware for r in asked} == {"local-cpu-1"}  # the other lane had nothing left
    assert case.case not in {r.case for r in asked}
    assert len(store.records()[0]) == len(plan.cells) * plan.repeats


async def test_an_unplanned_skip_is_a_failure(api, alone):
    async with Run(alone) as run:
        await until(lambda: api.jobs)
        job = api.job
        api.start(job)
        api.deliver(job, api.repeats(job), Verdict.SKIPPED)
        await run.ended()
        cell = next(iter(run.cells))
        assert (await measure.fn(cell, run.lanes)).is_failed()
