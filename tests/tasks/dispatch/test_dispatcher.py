"""The dispatcher against an API in memory: nothing is lost, nothing measured twice, nobody waits for ever."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Cancelled, Completed, Crashed, Failed, Pending

from infra.workers.base import outcome
from tasks.dispatch import dispatcher, job_end, submit
from tasks.dispatch.dispatcher import Dispatcher, LaneLost, stop_jobs
from tasks.dispatch.job_end import EXPLAINED_LABEL, OUTCOME_LABEL, JobEnd, end_of, has_ended
from tasks.errors import GridbenchError
from tasks.measure import measure
from tasks.planning.plan import PlannedSkip
from tasks.store.store import Store
from tests.tasks.dispatch.fake_prefect import installed
from workloads.harness.records.record import Verdict

AWAY = httpx.ConnectError("away")


def answer(code):
    request = httpx.Request("POST", "http://api")
    response = httpx.Response(code, json={"detail": "no such key"}, request=request)
    return PrefectHTTPStatusError("refused", request=request, response=response)


@pytest.fixture
def api(monkeypatch):
    return installed(monkeypatch)


def planned(store, plan, **changes):
    """The store with another plan."""
    return Store.create(store.folder.parent, plan.model_copy(update=changes))


@pytest.fixture
def alone(store, plan):
    """A run of one lane."""
    return planned(store, plan, hardware=plan.hardware[:1])


class Run:
    """A `bench` of a store, every cell of it asked for; again and again where its lane was lost."""

    def __init__(self, store, budget_usd=None):
        self.said = []
        self.lanes = Dispatcher(store, budget_usd, self.said.append, poll_s=0.01)

    async def __aenter__(self):
        await self.lanes.__aenter__()
        self.cells = {cell: asyncio.create_task(self._measure(cell)) for cell in self.lanes.plan.cells}
        return self

    async def __aexit__(self, *exc_info):
        for task in self.cells.values():
            task.cancel()
        await asyncio.gather(*self.cells.values(), return_exceptions=True)
        await self.lanes.__aexit__(*exc_info)

    async def _measure(self, cell):
        while True:
            try:
                return await self.lanes.records_of(cell)
            except LaneLost:
                await asyncio.sleep(0.001)

    async def ended(self):
        """Every record, once every cell has ended."""
        async with asyncio.timeout(120):
            done = await asyncio.gather(*self.cells.values())
        return [record for records in done for record in records]


async def until(condition):
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)


async def serve(api, but=()):
    """A worker that completes every job, one after another."""
    while True:
        for job in list(api.jobs.values()):
            if not job.state.is_final() and not job.state.is_cancelling() and job.id not in but:
                api.complete(job)
        await asyncio.sleep(0.005)


@pytest.fixture
async def worker(api):
    task = asyncio.create_task(serve(api))
    yield task
    task.cancel()


async def test_every_repeat_is_asked_for_once_and_stored(api, worker, store):
    async with Run(store) as run:
        assert len(await run.ended()) == 28
    asked = [repeat.id for job in api.jobs.values() for repeat in api.repeats(job)]
    assert len(asked) == len(set(asked)) == 28 and len(store.records()[0]) == 28


async def test_lanes_of_one_box_never_have_jobs_at_once(api, store):
    async with Run(store) as run:
        await until(lambda: api.jobs)
        api.start(api.job)
        await asyncio.sleep(0.1)
        assert len(api.jobs) == 1
        task = asyncio.create_task(serve(api))
        await run.ended()
        task.cancel()


@pytest.mark.parametrize("troubles", [[AWAY], [None, AWAY], [None, None, AWAY, OSError("reset")]])
async def test_a_request_that_is_lost_costs_nothing(api, worker, store, troubles):
    async with Run(store) as run:
        api.troubles.extend(troubles)
        assert len(await run.ended()) == 28
    asked = [repeat.id for job in api.jobs.values() for repeat in api.repeats(job)]
    assert len(asked) == len(set(asked)) == 28


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (answer(422), "the Prefect API refuses: no such key"),
        (ObjectNotFound(None), "deployment lane/local is not on this Prefect server"),
    ],
)
async def test_what_the_api_refuses_ends_the_run_with_a_sentence(api, store, monkeypatch, trouble, words):
    async def refuse(*args, **kwargs):
        raise trouble

    monkeypatch.setattr(submit, "arun_deployment", refuse)
    with pytest.raises(GridbenchError, match=words):
        async with Run(store) as run:
            with pytest.raises(GridbenchError, match=words):
                await run.ended()
            with pytest.raises(GridbenchError, match=words):  # nor does one that asks later wait for ever
                await run.lanes.records_of(store.plan.cells[0])


async def test_whatever_ends_the_watcher_wakes_everyone(api, worker, store):
    with pytest.raises(ZeroDivisionError):
        async with Run(store) as run:
            run.lanes.on_progress = lambda: 1 / 0
            with pytest.raises(ZeroDivisionError):
                await run.ended()


async def test_a_store_that_cannot_be_written_ends_the_run_with_a_sentence(api, worker, store):
    (store.folder / "records").rmdir()
    (store.folder / "records").write_text("in the way")
    with pytest.raises(GridbenchError, match="can't be written"):
        async with Run(store) as run:
            await run.ended()


async def test_a_job_that_dies_is_asked_for_again_without_what_it_delivered(api, alone):
    async with Run(alone) as run:
        await until(lambda: api.jobs)
        first = api.job
        api.start(first)
        done = api.repeats(first)[:5]
        api.deliver(first, done)
        api.crash(first)
        await until(lambda: len(api.jobs) > 1)
        assert [repeat.id for repeat in api.repeats(api.job)] == [api.repeats(first)[5].id]
        task = asyncio.create_task(serve(api))
        assert len(await run.ended()) == 14
        task.cancel()
    again = {repeat.id for job in list(api.jobs.values())[1:] for repeat in api.repeats(job)}
    assert not again & {repeat.id for repeat in done}


async def test_a_job_that_is_deleted_is_asked_for_again(api, store):
    async with Run(store) as run:
        await until(lambda: api.jobs)
        del api.jobs[api.job.id]
        await until(lambda: api.jobs)
        task = asyncio.create_task(serve(api))
        assert len(await run.ended()) == 28
        task.cancel()


async def test_jobs_that_nobody_starts_are_given_up(api, store, monkeypatch):
    monkeypatch.setattr(dispatcher, "START_WITHIN_S", 0.05)
    async with Run(store) as run:
        records = await run.ended()
        assert {record.verdict for record in records} == {Verdict.CAPACITY}
        assert "no worker of pool local" in records[0].reasons[0]
        assert all(api.stopped(job) for job in api.jobs.values())


async def test_a_machine_that_does_not_come_is_given_up_by_the_hardwares_own_patience(
    api, store, plan, monkeypatch
):
    monkeypatch.setattr(dispatcher, "START_WITHIN_S", 0.05)
    patient = plan.hardware[0].model_copy(update={"start_within_s": 0.6})
    async with Run(planned(store, plan, hardware=(patient,))) as run:
        await until(lambda: api.jobs)
        api.job.state = Pending()  # a worker has taken it
        await asyncio.sleep(0.2)
        assert not api.stopped(api.job)
        records = await run.ended()
        assert {record.verdict for record in records} == {Verdict.CAPACITY}
        assert "pool local has not started the lane within 1 s" in records[0].reasons[0]


CLOUD = {EXPLAINED_LABEL: 180.0}


@pytest.mark.parametrize(
    ("labels", "state", "over"),
    [
        (CLOUD, Crashed(message="Execution was aborted by a termination signal."), False),
        ({}, Crashed(message="Execution was aborted by a termination signal."), True),
        (
            CLOUD | {OUTCOME_LABEL: "taken-away"},
            Crashed(name="Reclaimed", message="terminated: signal"),
            True,
        ),
        (CLOUD | {OUTCOME_LABEL: "crashed"}, Crashed(message="The container ended with exit code 3."), True),
        (CLOUD, Completed(), True),
        (CLOUD, Pending(), False),
    ],
)
def test_a_cloud_has_time_to_say_why_a_signal_came(labels, state, over):
    now = state.model_copy(update={"timestamp": datetime.now(UTC)})  # made when the tests were collected
    assert has_ended(SimpleNamespace(state=now, labels=labels)) is over
    long_ago = state.model_copy(update={"timestamp": datetime.now(UTC) - timedelta(hours=1)})
    assert has_ended(SimpleNamespace(state=long_ago, labels=labels)) is state.is_final()
    assert has_ended(None)


@pytest.mark.parametrize(
    ("labels", "state", "end"),
    [
        ({OUTCOME_LABEL: "taken-away"}, Crashed(name="Drained"), JobEnd.TAKEN_AWAY),
        ({}, Failed(name="Unfit"), JobEnd.UNFIT),  # said by the lane's own preflight
        ({}, Crashed(), JobEnd.CRASHED),
        ({OUTCOME_LABEL: "something new"}, Crashed(), JobEnd.CRASHED),
    ],
)
def test_the_end_of_a_job_is_in_its_labels(labels, state, end):
    assert end_of(SimpleNamespace(state=state, labels=labels)) is end
    assert end_of(None) is JobEnd.CRASHED


def test_workers_and_the_dispatcher_agree_on_the_labels():
    assert (outcome.EXPLAINED_LABEL, outcome.OUTCOME_LABEL) == (EXPLAINED_LABEL, OUTCOME_LABEL)
    assert [*job_end.STAGE_LABELS] == [outcome.QUEUE_LABEL, outcome.PULL_LABEL]
    assert {end.value for end in JobEnd} == {cause.value for cause in outcome.Cause}


async def test_what_is_spent_stops_the_lanes_and_a_resume_measures_the_rest(api, store):
    async with Run(store, budget_usd=1.0) as run:
        await until(lambda: api.jobs)
        api.start(api.job)
        api.deliver(api.job, api.repeats(api.job)[:3])
        await until(lambda: len(run.lanes.arrived) == 3)
        api.job.estimated_run_time = timedelta(hours=11)  # at 0.10 USD an hour
        records = await run.ended()
        assert run.lanes.spent_usd() == pytest.approx(1.1 + 0.1 * 10 / 3600) and api.stopped(api.job)
    verdicts = [record.verdict for record in records]
    assert verdicts.count(Verdict.CAPACITY) == 25 and "budget of 1 USD" in str(records[-1].reasons)
    api.job.state = Cancelled()
    task = asyncio.create_task(serve(api))
    async with Run(store) as run:
        again = await run.ended()
    task.cancel()
    assert {record.verdict for record in again} == {Verdict.TIMEOUT} and len(store.records()[0]) == 28
    assert len(list(store.folder.rglob("*.capacity"))) == 25


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
        while len(paid) < 14:
            await until(lambda: api.jobs and api.job.id not in paid)
            job = api.job
            api.start(job)
            job.estimated_run_time = timedelta(hours=1)
            api.deliver(job, api.repeats(job))  # and is not over yet when the next one is asked for
            paid.add(job.id)
            await asyncio.sleep(0.03)
        await run.ended()
        assert run.lanes.spent_usd() == pytest.approx(14 * one.price.usd_per_hour * (1 + one.start_s / 3600))


async def test_a_resume_takes_over_a_live_job_and_asks_for_nothing_twice(api, store):
    async with Run(store) as run:
        await until(lambda: api.jobs)
        job = api.job
        api.start(job)
        api.deliver(job, api.repeats(job)[:4])
        await until(lambda: len(run.lanes.arrived) == 4)
        run.lanes._jobs.clear()  # killed: nobody stops its job
    api.deliver(job, api.repeats(job)[4:6])
    async with Run(store) as run:
        await until(lambda: len(run.lanes.arrived) == 6)
        assert len(api.jobs) == 1
        task = asyncio.create_task(serve(api, but=[job.id]))
        api.deliver(job, api.repeats(job)[6:])
        job.state = Completed()
        assert len(await run.ended()) == 28
        task.cancel()
    asked = [repeat.id for one in api.jobs.values() for repeat in api.repeats(one)]
    assert len(asked) == len(set(asked)) == 28


async def test_a_resume_on_a_server_that_knows_nothing_of_the_run_goes_on_from_the_store(api, store, plan):
    done = plan.repeats_on(plan.hardware[0])
    for repeat in done:
        store.add(repeat.failed(Verdict.TIMEOUT, "earlier"))
    task = asyncio.create_task(serve(api))
    async with Run(store) as run:
        await run.ended()
    task.cancel()
    asked = {repeat.id for job in api.jobs.values() for repeat in api.repeats(job)}
    assert len(asked) == 14 and not asked & {repeat.id for repeat in done}


async def test_records_by_the_thousand_come_in_pages(api, store, plan):
    planned(store, plan, hardware=plan.hardware[:1], repeats=70)
    task = asyncio.create_task(serve(api))
    async with Run(store) as run:
        assert len(await run.ended()) == 490
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


async def test_what_is_planned_as_skipped_is_in_the_store_and_in_no_job(api, store, plan):
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


async def test_a_skip_that_nobody_planned_is_a_failure(api, alone):
    async with Run(alone) as run:
        await until(lambda: api.jobs)
        job = api.job
        api.start(job)
        api.deliver(job, api.repeats(job), Verdict.SKIPPED)
        await run.ended()
        cell = next(iter(run.cells))
        assert (await measure.fn(cell, run.lanes)).is_failed()
