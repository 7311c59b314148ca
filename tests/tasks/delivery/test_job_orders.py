import asyncio
import json

import pytest

from tasks.delivery import job_orders
from tasks.errors import GridbenchError
from tests.tasks.dispatch.dispatched import Run, planned, serve, until
from tests.tasks.dispatch.fake_prefect import answer, installed
from workloads.harness.records.record import Verdict


@pytest.fixture
def prefect(monkeypatch):
    return installed(monkeypatch)


async def parameters(prefect, store, plan, repeats):
    store = planned(store, plan, hardware=plan.hardware[:1], repeats=repeats)
    async with Run(store):
        await until(lambda: prefect.orders)
    return len(json.dumps(prefect.job.parameters)), len(prefect.repeats(prefect.job))


async def test_polls_do_not_grow_with_the_plan(prefect, store, plan):
    few_bytes, few = await parameters(prefect, store, plan, 2)
    prefect.orders.clear()
    many_bytes, many = await parameters(prefect, store, plan, 70)
    assert (few, many) == (10, 350) and many_bytes - few_bytes <= 2 and many_bytes < 400


async def test_nothing_of_a_run_is_left_in_the_api(prefect, store):
    task = asyncio.create_task(serve(prefect))
    async with Run(store) as run:
        assert len(await run.ended()) == 20
    task.cancel()
    assert prefect.artifacts == [] and prefect.inputs == {} and len(prefect.orders) == len(prefect.jobs) > 0


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_a_bench_that_dies_between_storing_and_removing_loses_nothing(prefect, store, lost):
    async with Run(store) as run:
        await until(lambda: prefect.orders)
        job = prefect.job
        prefect.start(job)
        remove, prefect.delete_artifact = prefect.delete_artifact, dead
        prefect.deliver(job, prefect.repeats(job)[:5])
        await until(lambda: len(run.lanes.arrived) == 5)
        for artifact in prefect.artifacts[:lost]:
            await remove(artifact.id)
        run.lanes._jobs.clear()
        run.lanes._receiver.orders.clear()
    prefect.delete_artifact = remove
    prefect.crash(job)
    task = asyncio.create_task(serve(prefect))
    async with Run(store) as run:
        assert len(await run.ended()) == 20
    task.cancel()
    assert len(store.records()[0]) == 20 and prefect.artifacts == []
    later = [each.id for one in prefect.jobs.values() if one is not job for each in prefect.repeats(one)]
    assert len(later) == len(set(later)) == 15


async def dead(artifact_id):
    raise OSError("the API does not answer")


async def test_an_order_whose_answer_was_lost_is_given_once(prefect, plan):
    first, *others = plan.repeats_on(plan.hardware[0])
    job = "a job"
    prefect.troubles.extend([None, OSError("lost")])
    with pytest.raises(OSError, match="lost"):
        await job_orders.send_order(prefect, job, [first])
    assert (
        await job_orders.send_order(prefect, job, others)
        == [first]
        == await job_orders.read_order(prefect, job)
    )


async def test_an_unreadable_order_is_read_as_empty(prefect):
    prefect.inputs["a job", job_orders.KEY] = '[{"run": 1}]'
    assert (
        await job_orders.read_order(prefect, "a job") == [] == await job_orders.read_order(prefect, "another")
    )


class Client:
    def __init__(self, *answers):
        self.answers = list(answers)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def read_flow_run_input(self, flow_run_id, key):
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(told, Exception):
            raise told
        return told


def wait_for_order(monkeypatch, *answers, wait_s=5.0):
    monkeypatch.setattr(job_orders, "LOOK_S", 0.01)
    monkeypatch.setattr(job_orders, "get_client", lambda sync_client: Client(*answers))
    return job_orders.wait_for_order("a job", wait_s)


def test_a_lane_waits_for_its_order(monkeypatch, plan):
    repeats = plan.repeats_on(plan.hardware[0])
    text = job_orders.REPEATS.dump_json(repeats).decode()
    assert wait_for_order(monkeypatch, answer(404), OSError("away"), answer(503), text) == repeats


def test_a_lane_reads_the_order_of_a_later_version(monkeypatch, plan):
    """Images stay the same while `bench` gets new fields."""
    repeats = plan.repeats_on(plan.hardware[0])
    later = [item | {"of_tomorrow": "x"} for item in job_orders.REPEATS.dump_python(repeats, mode="json")]
    assert wait_for_order(monkeypatch, json.dumps(later)) == repeats


@pytest.mark.parametrize(("trouble", "wait_s"), [(answer(403), 60.0), (answer(404), 0.05)])
def test_a_lane_without_an_order_ends_with_a_sentence(monkeypatch, trouble, wait_s):
    with pytest.raises(GridbenchError, match="this lane job has no order of repeats"):
        wait_for_order(monkeypatch, trouble, wait_s=wait_s)


def test_a_record_and_its_repeat_have_one_identity(plan):
    repeats = plan.repeats_on(plan.hardware[0])
    assert [job_orders.identity(r.failed(Verdict.OK, "x")) for r in repeats] == [
        *map(job_orders.identity, repeats)
    ]
    assert len({*map(job_orders.identity, repeats)}) == len(repeats)
