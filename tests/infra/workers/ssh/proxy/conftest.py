"""A Prefect server with an auth string, and objects that a box must not reach."""

import pytest
from prefect.states import Pending

from tests.infra.workers.ssh.proxy.belongings import SECRET, Belongings
from tests.infra.workers.ssh.proxy.inputs import send
from tests.infra.workers.worker_prefect import Prefect


@pytest.fixture(scope="session")
def locked(tmp_path_factory):
    server = Prefect(tmp_path_factory.mktemp("locked"), locked=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def theirs(locked):
    with locked.settings():
        yield await Belongings.make(locked)


@pytest.fixture
async def own(locked, theirs):
    async with locked.client() as client:
        run = await client.create_flow_run_from_deployment(
            theirs.deployment_id,
            name="own",
            state=Pending(),
            job_variables={"hosts": [{"address": "10.0.0.2", "key": SECRET}]},
        )
        await client.update_flow_run(run.id, infrastructure_pid=SECRET)
        await send(client, run.id)
        return await client.read_flow_run(run.id)
