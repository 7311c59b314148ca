import asyncio
import time

import httpx
import pytest
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

from infra.workers.base.pool_runs import OWNER
from tasks.store.store import Store
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]
MEASURED = {Verdict.OK, Verdict.NOISY, Verdict.IMPRECISE, Verdict.UNSTEADY}
WITHIN_S = 600


async def until(found):
    deadline = time.monotonic() + WITHIN_S
    while not (one := await found()):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.3)
    return one


async def start(client, folder):
    asked = {"suite": "cloud", "hardware": ["box"], "results": str(folder / "results")}
    deployment = await client.read_deployment_by_name("bench/quick")
    return (await client.create_flow_run_from_deployment(deployment.id, parameters=asked)).id


async def lanes(client):
    named = DeploymentFilter(name=DeploymentFilterName(any_=["ssh"]))
    return await client.read_flow_runs(deployment_filter=named)


async def strangers_are_refused(url):
    async with httpx.AsyncClient() as stranger:
        for path in ("admin/settings", "work_pools/local"):
            assert (await stranger.get(f"{url}/{path}")).status_code == 401
        for path in ("flow_runs/filter", "variables/filter", "block_documents/filter", "deployments/"):
            assert (await stranger.post(f"{url}/{path}", json={})).status_code == 401
            known = {"Authorization": "Basic bm9ib2R5Om5vdGhpbmc="}
            assert (await stranger.post(f"{url}/{path}", json={}, headers=known)).status_code == 401


async def test_a_killed_worker_costs_nothing_because_the_other_goes_on(server, database):
    for url in (server.url, server.last_url):
        await strangers_are_refused(url)
    server.worker("local", "process", "bench")
    urls = {"one": server.url, "two": server.last_url}
    workers = {name: server.worker("ssh", "ssh", name, url) for name, url in urls.items()}
    folder = server.folder / "results"

    async def contents():
        return {path: path.read_bytes() for path in folder.glob("*/records/**/*.json")}

    async with server.client() as client:
        run_id = await start(client, server.folder)
        before = await until(contents)
        (lane,) = await lanes(client)
        owner = lane.labels[OWNER]
        workers[owner].kill()
        workers[owner].wait()

        async def final():
            state = (await client.read_flow_run(run_id)).state
            return state if state.is_final() else None

        state = await until(final)
        assert state.is_completed(), f"{state.message}\n{server.logs()}"
        (same,) = await lanes(client)
        name = (await client.read_flow_run(run_id)).name
    after = await contents()
    assert len(after) == 6 and before.items() <= after.items()
    records, odd = Store.open(folder, name).records()
    assert not odd and {record.verdict for record in records} <= MEASURED
    assert same.id == lane.id and same.state.is_completed() and same.labels[OWNER] != owner
    assert (folder / name / "report.html").exists()
    rows = database.ask(
        "select f.name, r.state_type from flow_run r join flow f on f.id = r.flow_id order by 1"
    )
    assert rows.splitlines() == ["bench|COMPLETED", "lane|COMPLETED"]

    async def cells():
        """Return the task runs, which services make of events."""
        return int(database.ask("select count(*) from task_run where state_type = 'COMPLETED'")) >= 3

    await until(cells)
