import pytest

from tests.infra.workers.ad_hoc.flows import add
from tests.infra.workers.ad_hoc.submit import bound

pytestmark = pytest.mark.timeout(900)


async def test_a_bound_flow_runs_without_a_deployment(backend):
    pool = backend.pool
    flow = bound(add, pool.kind.type, pool.name, backend.python)
    async with pool.kind(work_pool_name=pool.name) as worker:
        future = await worker.submit(flow, {"a": 2, "b": 3})
        await future.wait_async(timeout=300)
    run = await pool.run(future.flow_run_id)
    assert run.state.name == "Completed", run.state
    assert run.deployment_id is None
    assert "the sum is 5" in [line.message for line in await pool.logs(run.id)]
