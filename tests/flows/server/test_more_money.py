import asyncio

import pytest
from prefect.states import Scheduled

from flows.bench import DECLINED

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)
FROM_THE_FORM = Scheduled(message="")  # as its button sends it, with an empty field for a message


async def asking(bench):
    """Start a run like the form with next to no budget; return its id once it asks."""
    asked = {"suite": "naps", "hardware": ["local-cpu"], "results": str(bench.results), "budget_usd": 1e-6}
    async with bench.client() as client:
        deployment = await client.read_deployment_by_name("bench/quick")
        run = await client.create_flow_run_from_deployment(
            deployment.id, parameters=asked, state=FROM_THE_FORM
        )
        async with asyncio.timeout(150):
            while not (state := (await client.read_flow_run(run.id)).state).is_paused():
                assert not state.is_final(), state
                await asyncio.sleep(0.2)
    return run.id


def folders(bench):
    return {path.name for path in bench.results.iterdir()} if bench.results.is_dir() else set()


async def test_an_accepted_budget_starts_the_run_with_that_budget(bench):
    before = folders(bench)
    run_id = await asking(bench)
    assert folders(bench) == before, "nothing is made before somebody has answered"
    async with bench.client() as client:
        keys = (await client.read_flow_run(run_id)).state.state_details.run_input_keyset
        description = await client.read_flow_run_input(run_id, keys["description"])
        schema = await client.read_flow_run_input(run_id, keys["schema"])
        assert "USD, go on?" in description and '"title":"Budget in USD"' in schema
        refused = await client.resume_flow_run(run_id, run_input={"go_on": True, "budget_usd": -1})
        assert refused.status.value == "REJECT"
        await client.resume_flow_run(run_id, run_input={"go_on": True, "budget_usd": 1.0})
    assert (await bench.end(run_id)).is_completed()
    store = await bench.store(run_id)
    assert len(store.records()[0]) == len(store.plan.cells) * store.plan.repeats
    assert store.plan.estimate_usd > 1e-6


@pytest.mark.parametrize("answer", [{"go_on": False, "budget_usd": 1.0}, {}], ids=["no", "nothing"])
async def test_a_declined_budget_ends_the_run_before_anything_is_made(bench, answer):
    before = folders(bench)
    run_id = await asking(bench)
    async with bench.client() as client:
        await client.resume_flow_run(run_id, run_input=answer)
    state = await bench.end(run_id, within_s=120)
    assert state.is_cancelled() and state.name == DECLINED
    assert state.message.startswith("declined: the estimate of 0.000")
    assert folders(bench) == before


@pytest.mark.chaos
async def test_a_budget_that_is_still_too_small_is_refused(bench):
    run_id = await asking(bench)
    async with bench.client() as client:
        await client.resume_flow_run(run_id, run_input={"go_on": True, "budget_usd": 1e-6})
    state = await bench.end(run_id, within_s=120)
    assert state.is_failed() and "exceeds budget_usd" in state.message


@pytest.mark.chaos
async def test_a_run_that_asks_can_be_cancelled(bench):
    run_id = await asking(bench)
    await bench.cancel(run_id)
    assert (await bench.end(run_id, within_s=120)).is_cancelled()
