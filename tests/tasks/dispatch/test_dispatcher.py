import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Completed, Crashed, Failed, Pending

from infra.workers.base import outcome
from tasks.dispatch import job_end, lane, submit
from tasks.dispatch.job_end import EXPLAINED_LABEL, OUTCOME_LABEL, STAGE_LABELS, JobEnd, end_of, has_ended
from tasks.dispatch.job_notes import FILE, NOTES, note_jobs, spent_usd
from tasks.errors import GridbenchError
from tests.tasks.dispatch.dispatched import Run, planned, serve, until
from tests.tasks.dispatch.fake_prefect import answer
from workloads.harness.records.record import Verdict

AWAY = httpx.ConnectError("away")


async def test_every_repeat_is_asked_for_once_and_stored(api, worker, store):
    async with Run(store) as run:
        assert len(await run.ended()) == 20
    asked = [repeat.id for job in api.jobs.values() for repeat in api.repeats(job)]
    assert len(asked) == len(set(asked)) == 20 and len(store.records()[0]) == 20


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
        assert len(await run.ended()) == 20
    asked = [repeat.id for job in api.jobs.values() for repeat in api.repeats(job)]
    assert len(asked) == len(set(asked)) == 20


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (answer(422), "the Prefect API refuses: no such key"),
        (ObjectNotFound(None), "deployment lane/local is not on this Prefect server"),
    ],
)
async def test_a_refused_submission_ends_the_run_with_a_sentence(api, store, monkeypatch, trouble, words):
    async def refuse(*args, **kwargs):
        raise trouble

    monkeypatch.setattr(submit, "arun_deployment", refuse)
    with pytest.raises(GridbenchError, match=words):
        async with Run(store) as run:
            with pytest.raises(GridbenchError, match=words):
                await run.ended()
            with pytest.raises(GridbenchError, match=words):  # nor does one that asks later wait for ever
                await run.lanes.records_of(store.plan.cells[0])


async def test_any_end_of_the_watcher_wakes_all_waiters(api, worker, store):
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


async def test_a_dead_job_is_requested_again_without_its_delivered_repeats(api, alone):
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
        assert len(await run.ended()) == 10
        task.cancel()
    again = {repeat.id for job in list(api.jobs.values())[1:] for repeat in api.repeats(job)}
    assert not again & {repeat.id for repeat in done}


async def test_a_lane_whose_jobs_are_refused_costs_nothing_and_ends_after_the_second(api, alone):
    async with Run(alone, budget_usd=1e-9) as run:
        for count in (1, 2):
            await until(lambda count=count: len(api.jobs) == count)
            api.take(api.job)
            api.crash(api.job, "no such image")
        records = await run.ended()
        assert run.lanes.spent_usd() == 0 and len(api.jobs) == 2
    assert {record.verdict for record in records} == {Verdict.CAPACITY}
    assert "2 lane jobs in a row ended without a record" in records[0].reasons[0]
    assert [note.billed_s for note in NOTES.validate_json((alone.folder / FILE).read_bytes())] == [0, 0]


async def test_a_container_that_ran_is_paid_for_though_its_flow_never_began(api, alone):
    async with Run(alone) as run:
        await until(lambda: api.jobs)
        api.take(api.job)
        api.job.labels |= dict.fromkeys(STAGE_LABELS, 3.0)  # as its worker sets them once the container runs
        api.crash(api.job, "exit code 1")
        await until(lambda: len(api.jobs) == 2)
        machine = alone.plan.hardware[0]
        assert run.lanes.spent_usd() == pytest.approx(machine.price.usd_per_hour * machine.start_s / 3600)
        task = asyncio.create_task(serve(api))
        assert len(await run.ended()) == 10, "and no repeat is to blame"
        task.cancel()


async def test_a_job_that_is_deleted_is_asked_for_again(api, store):
    async with Run(store) as run:
        await until(lambda: api.jobs)
        del api.jobs[api.job.id]
        await until(lambda: api.jobs)
        task = asyncio.create_task(serve(api))
        assert len(await run.ended()) == 20
        task.cancel()


async def test_jobs_without_a_worker_are_given_up_and_their_lane_is_reported(api, store, told, monkeypatch):
    monkeypatch.setattr(lane, "START_WITHIN_S", 0.05)
    async with Run(store) as run:
        records = await run.ended()
        assert {record.verdict for record in records} == {Verdict.CAPACITY}
        assert "no worker of pool local" in records[0].reasons[0]
        assert all(api.stopped(job) for job in api.jobs.values())
    assert [(name, hardware, left) for name, hardware, _, left in told] == [
        ("lane_lost", " and ".join(machine.name for machine in store.plan.hardware), 20)
    ]
    assert "no worker of pool local has started the lane" in told[0][2]


async def test_a_run_that_never_had_a_machine_has_cost_nothing(api, store, monkeypatch):
    monkeypatch.setattr(lane, "START_WITHIN_S", 0.05)
    async with Run(store) as run:
        await run.ended()
    assert (store.folder / FILE).read_text() == "[]\n" and spent_usd(store) == 0
    (store.folder / FILE).write_text("[{")
    await note_jobs(api, store)
    assert spent_usd(store) == store.plan.estimate_usd > 0, "nobody can tell what the earlier jobs were"


async def test_the_cost_of_jobs_is_estimated_if_the_api_does_not_answer(api, store):
    api.troubles.append(AWAY)
    await note_jobs(api, store)
    assert not (store.folder / FILE).exists() and spent_usd(store) == store.plan.estimate_usd > 0


async def test_a_machine_that_does_not_come_is_given_up_by_the_hardwares_own_patience(
    api, store, plan, monkeypatch
):
    monkeypatch.setattr(lane, "START_WITHIN_S", 0.05)
    patient = plan.hardware[0].model_copy(update={"start_within_s": 3.0})
    async with Run(planned(store, plan, hardware=(patient,))) as run:
        await until(lambda: api.jobs)
        api.job.state = Pending()  # a worker has taken it
        await asyncio.sleep(0.2)
        assert not api.stopped(api.job)
        records = await run.ended()
        assert {record.verdict for record in records} == {Verdict.CAPACITY}
        assert "pool local has not started the lane within 3 s" in records[0].reasons[0]


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
        ({}, Cancelled(), JobEnd.CANCELLED),  # by a user, in a pool whose worker sets no label
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
