import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate

from gridbench.setup import objects
from gridbench.setup.note import CloudNote
from tasks.planning.limits import LOCAL_POOL
from tests.infra.workers.worker_prefect import Prefect

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


@pytest.fixture
def client(tmp_path):
    server = Prefect(tmp_path)
    server.start()
    with server.settings(), get_client(sync_client=True) as client:
        yield client
    server.kill()


def made(client, deployment):
    flow_id = client.create_flow_from_name("lane")
    client.create_deployment(flow_id=flow_id, name=deployment, work_pool_name=LOCAL_POOL, entrypoint="n.py:n")
    return f"lane/{deployment}"


def test_the_pool_local_stays_while_deployments_of_others_run_on_it(client):
    client.create_work_pool(WorkPoolCreate(name=LOCAL_POOL, type="process"))
    facts = {"cloud": "aws", "project": "p", "api_url": "x", "pool": "aws-batch", "kind": "x"}
    told = []
    note = CloudNote(**facts, work_pools=[LOCAL_POOL], deployments=[made(client, "local")])
    made(client, "theirs")
    objects._delete_all(client, note, told.append)
    assert told[-1] == "left work pool local: theirs of others run on it"
    assert client.read_work_pool(LOCAL_POOL) and not note.work_pools
    note = CloudNote(**facts, work_pools=[LOCAL_POOL], deployments=["lane/theirs"])
    objects._delete_all(client, note, told.append)
    assert told[-1] == "deleted work pool local"
