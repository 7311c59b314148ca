import json

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.states import Crashed, Pending, Running, Scheduled

from flows.bench import bench as flow
from flows.hooks import collect_and_stop
from infra.local.access import auth_string
from tasks.delivery.artifact_encoding import TYPE
from tasks.delivery.job_orders import send_order
from tasks.dispatch import rented_boxes
from tasks.dispatch.flow_runs import LANE_TAG, run_tag
from tasks.dispatch.job_notes import FILE
from tasks.dispatch.rental_labels import RELEASE, TAG
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store
from workloads.harness.records.record import Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


@pytest.fixture
def store(bench):
    plan = make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=1, seed=7))
    return Store.create(bench.results, plan)


@pytest.fixture
async def client(bench, monkeypatch):
    monkeypatch.setattr(rented_boxes, "JOBS_S", 0.5)  # the pools of these lanes have no worker
    async with bench.client() as client:
        yield client


async def flow_run(client, *states, **options):
    run = await client.create_flow_run(flow, **options)
    for state in states:
        await client.set_flow_run_state(run.id, state, force=True)
    return await client.read_flow_run(run.id)


async def resumed(client, store):
    """Return a `bench` as its worker knows it, before it was named after its resumed run."""
    asked = {"resume": store.plan.run, "results": str(store.folder.parent)}
    run = await flow_run(client, Pending(), Running(), name="brave-otter", parameters=asked)
    await client.update_flow_run(run.id, name=store.plan.run)
    return run


async def left_by_an_earlier_bench(client, store, tag, *states):
    asked = {"run": store.plan.run, "hardware": "local-cpu", "count": 3}
    asked |= {"asked": {"hardware": "local-cpu"}}  # of a rental
    return await flow_run(client, *states, tags=[tag, run_tag(store.plan.run)], parameters=asked)


async def crashed(bench, client, run):
    """Act like the runner after a flow run's process was killed."""
    state = Crashed(message="Flow run process exited with non-zero status code -9.")
    await client.set_flow_run_state(run.id, state, force=True)
    stack = bench.stack
    api = {PREFECT_API_URL: stack.api_url, PREFECT_API_AUTH_STRING: auth_string(stack.state)}
    with temporary_settings(api):
        await collect_and_stop(flow, run, state)


async def test_a_crashed_bench_stops_the_lanes_that_it_took_over_and_keeps_their_records(
    bench, client, store
):
    lane = await left_by_an_earlier_bench(client, store, LANE_TAG, Pending(), Running())
    rental = await left_by_an_earlier_bench(client, store, TAG, Pending(), Running())
    not_begun = await left_by_an_earlier_bench(client, store, TAG, Scheduled())
    repeats = store.plan.repeats_on(store.plan.hardware[0])
    await send_order(client, lane.id, repeats)
    sent = repeats[0].failed(Verdict.TIMEOUT, "of a test")
    upload = {"type": TYPE, "data": sent.to_json(), "flow_run_id": str(lane.id)}
    await client.request("POST", "/artifacts/", json=upload)
    await crashed(bench, client, await resumed(client, store))
    assert (await client.read_flow_run(lane.id)).state.is_cancelling()
    assert (await client.read_flow_run(rental.id)).labels[RELEASE] is True
    assert (await client.read_flow_run(not_begun.id)).state.is_cancelled()
    assert [record.id for record in store.records()[0]] == [sent.id]
    (note,) = json.loads((store.folder / FILE).read_text())
    assert (note["flow_run_id"], note["repeats"]) == (str(lane.id), 3)


async def test_the_lanes_of_a_run_that_another_bench_measures_go_on(bench, client, store):
    lane = await left_by_an_earlier_bench(client, store, LANE_TAG, Pending(), Running())
    first, second = await resumed(client, store), await resumed(client, store)
    await crashed(bench, client, first)
    assert (await client.read_flow_run(lane.id)).state.is_running()
    await crashed(bench, client, second)
    assert (await client.read_flow_run(lane.id)).state.is_cancelling()
