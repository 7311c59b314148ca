"""A Prefect server that wants an auth string, with things on it that are no business of a box."""

import base64

import pytest
from prefect.states import Pending

from tasks.delivery.orders import give
from tasks.travel.sending import CONSIGNMENT, Consignment, name_of, piece_name
from tests.infra.workers.ssh.proxy.belongings import Belongings
from tests.infra.workers.ssh.proxy.lane_flow import CODE, CONTENT, REPEATS
from tests.infra.workers.worker_prefect import Prefect


@pytest.fixture(scope="session")
def locked(tmp_path_factory):
    server = Prefect(tmp_path_factory.mktemp("locked"), locked=True)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def theirs(locked):
    with locked.settings():
        yield await Belongings.make(locked)


@pytest.fixture
async def own(locked, theirs):
    """The flow run of a lane that a worker has just taken."""
    async with locked.client() as client:
        run = await client.create_flow_run_from_deployment(theirs.deployment_id, name="own", state=Pending())
        for place, part in enumerate((CONTENT[:9], CONTENT[9:])):
            piece = base64.b64encode(part).decode()
            await client.create_flow_run_input(run.id, piece_name(CODE, place), piece)
        way = CONSIGNMENT.dump_json(Consignment(CODE, len(CONTENT), 2)).decode()
        await client.create_flow_run_input(run.id, name_of(CODE), way)
        await give(client, run.id, REPEATS)
        return await client.read_flow_run(run.id)
