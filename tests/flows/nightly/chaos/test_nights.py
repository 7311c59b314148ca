import asyncio

import psutil
import pytest
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)

from tests.flows.nightly.watched_case import SPEEDS, WATCHED

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


def measuring():
    return [p for p in psutil.process_iter(["cmdline"]) if str(WATCHED) in (p.info["cmdline"] or ())]


async def test_a_cancelled_night_ends_all_that_it_has_under_way(bench, watch):
    night = await watch.start(SPEEDS | {"pause_s": 300})
    async with asyncio.timeout(150):
        while not measuring():
            await asyncio.sleep(0.2)
    await bench.cancel(night)
    assert (await bench.end(night)).is_cancelled()
    inside = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[night]))
    async with asyncio.timeout(120), bench.client() as client:
        while not all(
            run.state.is_cancelled() for run in await client.read_flow_runs(flow_run_filter=inside)
        ):
            await asyncio.sleep(0.5)
        while measuring():
            await asyncio.sleep(0.2)
        (child,) = await client.read_flow_runs(flow_run_filter=inside)
    assert (watch.results / child.name / "plan.json").is_file()
