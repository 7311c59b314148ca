import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from prefect.states import Crashed, Pending, Running

from infra.workers.base import outcome
from tasks.dispatch.job_end import BEGAN_LABEL, ENDED_LABEL, EXPLAINED_LABEL, OUTCOME_LABEL, STAGE_LABELS
from tasks.dispatch.job_notes import FILE, NOTES, note_jobs
from tests.tasks.dispatch.dispatched import Run, planned, serve, until

QUEUE, PULL = STAGE_LABELS


def ago(seconds):
    return datetime.now(UTC) - timedelta(seconds=seconds)


async def job_of(api, store, **stated):
    async with Run(store):
        await until(lambda: api.jobs)
        job = api.job
        api.start(job)
        job.states[-1] = Pending(timestamp=ago(100))
    job.state, job.start_time, job.labels = Running(), ago(60), {EXPLAINED_LABEL: 30.0, QUEUE: 2.0, PULL: 3.0}
    job.labels |= {label: ago(seconds).timestamp() for label, seconds in stated.items()}
    (store.folder / FILE).unlink()
    return job


def noted(store):
    (note,) = NOTES.validate_json((store.folder / FILE).read_bytes())
    return note


async def test_a_job_whose_end_was_seen_late_costs_the_time_of_its_container(api, alone):
    job = await job_of(api, alone, **{BEGAN_LABEL: 90, ENDED_LABEL: 78})
    api._enter(job, Crashed(message="seen just now"))
    await note_jobs(api, alone)
    note = noted(alone)
    assert note.billed_s == pytest.approx(12, abs=0.1), "not the 100 s since a worker took it"
    assert note.ended_at == pytest.approx(ago(78), abs=timedelta(seconds=1))


async def test_an_end_that_is_stated_after_the_note_corrects_it(api, alone):
    job = await job_of(api, alone, **{BEGAN_LABEL: 90})
    await note_jobs(api, alone)
    assert noted(alone).ended_at is None and noted(alone).billed_s == pytest.approx(90, abs=1)
    api._enter(job, Crashed())
    await note_jobs(api, alone)
    job.labels[ENDED_LABEL] = ago(50).timestamp()
    await note_jobs(api, alone)
    assert noted(alone).billed_s == pytest.approx(40, abs=0.1)


async def test_an_unwatched_job_costs_at_most_its_time_limit(api, alone):
    job = await job_of(api, alone, **{BEGAN_LABEL: 36_000})
    job.parameters["timeout_s"] = 600
    await note_jobs(api, alone)
    assert noted(alone).billed_s == pytest.approx(605, abs=0.1)


async def test_a_queue_before_the_platform_began_is_not_paid_for(api, alone):
    job = await job_of(api, alone, **{BEGAN_LABEL: 70, ENDED_LABEL: 20})
    job.labels |= {QUEUE: 3600.0, PULL: 4.0}
    api._enter(job, Crashed())
    await note_jobs(api, alone)
    assert noted(alone).billed_s == pytest.approx(50, abs=0.1)
    assert noted(alone).stages_s == {STAGE_LABELS[PULL]: 4.0}


async def test_the_budget_counts_times_that_a_platform_states(api, store, plan):
    planned(store, plan, hardware=plan.hardware[:1])
    async with Run(store, budget_usd=5.0) as run:
        await until(lambda: api.jobs)
        job, machine = api.job, plan.hardware[0]
        api.start(job)
        job.estimated_run_time = timedelta(hours=9)  # its worker was away for a night
        job.labels |= {QUEUE: 1.0, BEGAN_LABEL: ago(36_000).timestamp(), ENDED_LABEL: ago(35_280).timestamp()}
        await until(lambda: run.lanes.spent_usd() > 0)
        paid_s = 720 + machine.idle_s
        assert run.lanes.spent_usd() == pytest.approx(paid_s * machine.price.usd_per_hour / 3600)
        job.labels.pop(ENDED_LABEL)
        job.parameters["timeout_s"] = 60
        await until(lambda: run.lanes.spent_usd() < 700 * machine.price.usd_per_hour / 3600)


async def test_bench_waits_for_the_ends_that_workers_are_about_to_state(api, alone):
    began, over = ago(30).timestamp(), ago(10).timestamp()

    async def states_the_end():
        await until(lambda: api.jobs)
        api.job.labels |= {EXPLAINED_LABEL: 30.0, QUEUE: 0.0, BEGAN_LABEL: began}
        task = asyncio.create_task(serve(api))
        await until(lambda: api.job.state.is_final())
        await asyncio.sleep(0.7)
        api.job.labels[ENDED_LABEL] = over
        task.cancel()

    worker = asyncio.create_task(states_the_end())
    async with Run(alone) as run:
        await run.ended()
    await worker
    assert noted(alone).billed_s == pytest.approx(20, abs=0.1)


async def test_bench_does_not_wait_for_an_end_that_is_explained_or_will_not_be(api, alone):
    job = await job_of(api, alone, **{BEGAN_LABEL: 90})
    api._enter(job, Crashed())
    job.labels[OUTCOME_LABEL] = "unreachable"
    task = asyncio.create_task(serve(api))
    async with asyncio.timeout(10):
        async with Run(alone) as run:
            await run.ended()
    task.cancel()


def test_workers_and_the_bill_agree_on_the_labels():
    assert (outcome.BEGAN_LABEL, outcome.ENDED_LABEL) == (BEGAN_LABEL, ENDED_LABEL)
    assert outcome.MachineTime(datetime.fromtimestamp(5, UTC)).labels == {BEGAN_LABEL: 5.0}
