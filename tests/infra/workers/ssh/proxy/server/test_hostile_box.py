"""An attacker has the box and the token of its tunnel, and must reach nothing else on the server."""

import asyncio
import base64
import contextlib
import json
import logging
import tempfile
import uuid
from pathlib import Path

import httpx
import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from websockets.exceptions import ConnectionClosed, InvalidStatus

from infra.local.access import api_client
from infra.workers.ssh.proxy import callers
from infra.workers.ssh.proxy.limits import CONNECTIONS, Allowance
from tasks.delivery.artifact_queue import ArtifactQueue
from tasks.dispatch.flow_runs import measuring
from tests.infra.workers.ssh.proxy.belongings import SECRET
from tests.infra.workers.ssh.proxy.box_side import far_end

NOW = "2026-01-01T00:00:00Z"
REFUSED = {401, 403, 413, 422, 429}


@pytest.fixture
async def box(locked, own, caplog):
    caplog.set_level(logging.WARNING, "tunnel")
    with locked.settings():
        async with far_end(own) as far:
            yield far


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "tunnel"]


def attempts(own, theirs):
    """Return an attacker's requests: method, path, body."""
    other, task, artifact = theirs.other.id, theirs.task_run_id, theirs.artifact_id
    deployment = {
        "name": "pwned",
        "flow_id": str(own.flow_id),
        "work_pool_name": "local",
        "entrypoint": "x.py:x",
    }
    block = "include_secrets=true"
    line = {"name": "x", "level": 20, "message": "forged", "timestamp": NOW, "flow_run_id": str(other)}
    record = {"key": "other-record", "type": "bench-record", "data": "forged", "flow_run_id": str(other)}
    bare = {"type": "bench-record", "data": "forged", "flow_run_id": str(own.id)}
    state = {"state": {"type": "COMPLETED"}, "force": True}
    reads = [
        *(
            "/flows/filter",
            "/deployments/filter",
            "/flow_runs/filter",
            "/task_runs/filter",
            "/artifacts/filter",
        ),
        *(
            "/block_documents/filter",
            "/variables/filter",
            "/logs/filter",
            "/work_pools/filter",
            "/events/filter",
        ),
        *("/artifacts/latest/filter", "/automations/filter", "/block_types/filter", "/artifacts/count"),
    ]
    return [
        *(("POST", path, {}) for path in reads),
        ("POST", "/deployments/", deployment),
        ("POST", f"/deployments/{own.deployment_id}/create_flow_run", {"job_variables": {"command": "id"}}),
        ("PATCH", f"/deployments/{own.deployment_id}", {"entrypoint": "x.py:x"}),
        ("POST", "/flows/", {"name": "pwned"}),
        ("POST", "/flow_runs/", {"flow_id": str(own.flow_id)}),
        ("POST", "/work_pools/", {"name": "pwned", "type": "process"}),
        ("POST", "/variables/", {"name": "pwned", "value": 1}),
        ("GET", "/variables/name/a_variable", None),
        ("GET", f"/block_documents/{theirs.block_id}?{block}", None),
        ("GET", f"/block_types/slug/secret/block_documents/name/a-key?{block}", None),
        ("GET", f"/flow_runs/{other}", None),
        ("POST", f"/flow_runs/{other}/set_state", state),
        ("PATCH", f"/flow_runs/{other}", {"name": "pwned"}),
        ("DELETE", f"/flow_runs/{other}", None),
        ("DELETE", f"/flow_runs/{own.id}", None),
        ("PATCH", f"/flow_runs/{own.id}/labels", {"prefect.worker.name": "pwned"}),
        ("POST", f"/flow_runs/{own.id}/resume", {}),
        ("GET", f"/flow_runs/{other}/input/repeats", None),
        ("POST", f"/flow_runs/{own.id}/input", {"key": "repeats", "value": "[]"}),
        ("POST", f"/flow_runs/{own.id}/input/filter", {"prefix": ""}),
        ("DELETE", f"/flow_runs/{own.id}/input/repeats", None),
        ("GET", f"/flow_runs/{other}/input/code-0123456789abcdef", None),
        ("DELETE", f"/flow_runs/{own.id}/input/code-{'ab' * 8}-0", None),
        ("GET", f"/task_runs/{task}", None),
        ("POST", f"/task_runs/{task}/set_state", state),
        ("POST", "/task_runs/", {"flow_run_id": str(other), "task_key": "k", "dynamic_key": "1"}),
        ("GET", f"/artifacts/{artifact}", None),
        ("PATCH", f"/artifacts/{artifact}", {"data": "forged"}),
        ("DELETE", f"/artifacts/{artifact}", None),
        ("POST", "/artifacts/", record),
        ("POST", "/artifacts/", record | {"flow_run_id": str(own.id)}),
        ("POST", "/artifacts/", bare | {"type": "markdown", "key": "bench-report"}),
        ("POST", "/artifacts/", bare | {"task_run_id": str(task)}),
        ("POST", "/logs/", [line]),
        ("POST", "/logs/", [line | {"flow_run_id": str(own.id), "task_run_id": str(task)}]),
        ("POST", "/events", [{"event": "x", "resource": {"prefect.resource.id": "x"}}]),
        ("POST", f"/v2/concurrency_limits/leases/{uuid.uuid4()}/renew", {"lease_duration": 60}),
        ("GET", "/admin/settings", None),
        ("POST", "/admin/database/clear", {"confirm": True}),
    ]


def tricks(own, theirs, token):
    """Return requests whose line or headers two parsers can read differently."""
    who = f"Host: api\r\nAuthorization: Basic {base64.b64encode(token.encode()).decode()}\r\n"
    other, mine = f"flow_runs/{theirs.other.id}", f"flow_runs/{own.id}"
    for target in (
        *(f"/api/{other}", f"//api/{other}", f"/api//{other}", f"/api/./{other}", f"/api/x/../{other}"),
        *(
            f"/api/{mine}/../{theirs.other.id}",
            f"/api/{mine}/%2e%2e/{theirs.other.id}",
            f"/api/%66low_runs/{theirs.other.id}",
        ),
        *(
            f"http://127.0.0.1:4200/api/{other}",
            f"http://[::1]/api/{mine}",
            f"/api/{mine}%2f..%2f{theirs.other.id}",
        ),
        *(f"/api/{mine};/../{theirs.other.id}", f"/api/health/../{other}", f"/api/health%00/{other}", "*"),
    ):
        yield f"GET {target} HTTP/1.1\r\n{who}Connection: close\r\n\r\n".encode()
    yield f"CONNECT 127.0.0.1:4200 HTTP/1.1\r\n{who}\r\n".encode()
    yield f"GET /api/{other} HTTP/1.1\r\n{who}X-HTTP-Method-Override: DELETE\r\nX-Original-URL: /api/{mine}\r\n\r\n".encode()
    yield f"GET /api/{other} HTTP/1.1\r\n{who}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n".encode()
    inner = f"GET /api/{other} HTTP/1.1\r\n{who}\r\n"
    head = f"POST /api/logs/ HTTP/1.1\r\n{who}Content-Type: application/json\r\n"
    both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
    yield f"{head}{both}\r\n0\r\n\r\n{inner}".encode()
    yield f"{head}Content-Length: 0\r\nContent-Length: {len(inner)}\r\n\r\n{inner}".encode()
    yield f"{head}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{inner}".encode()
    yield f"GET /api/{other} HTTP/1.1\r\n{who}\r\n{inner}".encode()


async def test_nothing_else_on_the_server_is_reached_and_the_log_says_who_tried(
    locked, own, theirs, box, caplog
):
    before = await theirs.everything(own.id)
    assert SECRET in before
    async with box.http() as http:
        for method, path, body in attempts(own, theirs):
            answer = await http.request(method, path, json=body)
            told = (method, path, answer.status_code, answer.text)
            assert answer.status_code in REFUSED and SECRET not in answer.text, told
    for sent in tricks(own, theirs, box.token):
        answered = await box.raw(sent)
        assert SECRET.encode() not in answered and str(theirs.other.id).encode() not in answered, (
            sent,
            answered,
        )
        assert b"HTTP/1.1 2" not in answered, (sent, answered)
    assert await theirs.everything(own.id) == before
    logged = said(caplog)
    who = f"Box box@127.0.0.1:{box.connection.get_extra_info('peername')[1]}, flow run {own.id}: "
    assert f"{who}refused POST '/api/flows/filter': a box can access only its own flow run." in logged
    assert len(logged) < 40, "a flood does not fill the log"
    assert not any(SECRET in line for line in logged)


async def test_requests_without_the_token_reach_nothing(own, theirs, box, caplog):
    async with httpx.AsyncClient(base_url=box.url, trust_env=False) as http:
        assert (await http.get("/health")).status_code == 200
        for header in ({}, {"Authorization": "Basic !"}, {"Authorization": "Bearer x"}):
            assert (await http.get(f"/flow_runs/{own.id}", headers=header)).status_code == 401
    for token in ("box:guessed", "box:\ud800"):
        caplog.clear()
        with pytest.raises(ConnectionClosed):
            async with box.socket("/events/in", token=token):
                pass
        assert any("does not have the token" in line for line in said(caplog)), token


async def test_no_credential_of_the_server_comes_to_the_box(locked, own, box):
    """The proxy adds them; without them the server refuses."""
    async with box.http() as http:
        mine = (f"flow_runs/{own.id}", f"deployments/{own.deployment_id}", f"flows/{own.flow_id}")
        where = (f"work_pools/{own.work_pool_name}", f"work_queues/{own.work_queue_id}")
        answers = [await http.get(f"/{path}") for path in ("health", *mine, *where)]
        assert {answer.status_code for answer in answers} == {200}
        words = " ".join(f"{answer.headers} {answer.text}" for answer in answers)
        assert not any(hidden in words for hidden in (locked.auth.split(":")[1], SECRET, "set-cookie"))
    async with httpx.AsyncClient(
        base_url=locked.url, auth=tuple(box.token.split(":", 1)), trust_env=False
    ) as http:
        assert (await http.get(f"/flow_runs/{own.id}")).status_code == 401


async def heard_by(opened):
    """Return the resources of events until none has come for a second."""
    heard = set()
    with contextlib.suppress(TimeoutError):
        while True:
            event = json.loads(await asyncio.wait_for(opened.recv(), 1))["event"]
            heard.add(event["resource"]["prefect.resource.id"])
    return heard


@pytest.mark.parametrize(
    "path", ["/events/out", "/logs/out", "/work_pools/local/connect", "/events/in/../out"]
)
async def test_sockets_tell_nothing_of_others(locked, own, theirs, box, path):
    """An engine's socket gets only its own run, whatever filter it names."""
    everything = {"type": "filter", "filter": {"event": {"prefix": ["prefect."]}}, "backfill": True}
    try:
        async with box.socket(path) as opened:
            await opened.send(json.dumps(everything))
            server, heard = api_client(locked.folder, locked.url), set()
            suspend = {"state": {"type": "PAUSED", "name": "Suspended"}, "force": True}
            async with asyncio.timeout(120):
                while not heard:  # the server tells nothing of before it has accepted the filter
                    for run in (theirs.other.id, own.id):
                        assert server.post(f"/flow_runs/{run}/set_state", json=suspend).is_success
                    heard = await heard_by(opened)
            assert heard == {f"prefect.flow-run.{own.id}"} and path == "/events/out"
    except InvalidStatus as error:
        assert error.response.status_code == 403 and path != "/events/out"


async def test_a_box_sees_no_other_box_of_its_hardware(own, box):
    async with box.http() as http:
        run = (await http.get(f"/flow_runs/{own.id}")).json()
        deployment = (await http.get(f"/deployments/{own.deployment_id}")).json()
    assert (run["job_variables"], run["infrastructure_pid"], run["parent_task_run_id"]) == ({}, None, None)
    assert (deployment["job_variables"], deployment["parameters"]) == ({}, {})
    assert SECRET not in f"{run} {deployment}"


async def test_a_box_has_its_run_neither_tried_again_nor_taken_for_another(locked, own, box):
    """A run that waited for a retry was followed for ever; one named like `bench` kept its box rented."""
    asked = {"name": "the-run", "empirical_policy": {"retries": 10, "retry_delay": 0}, "flow_version": "1"}
    async with box.http() as http, locked.client() as client:
        for body in (asked, {"name": "the-run"}):
            assert (await http.patch(f"/flow_runs/{own.id}", json=body)).status_code == 204
        for state in ("RUNNING", "FAILED"):
            if state == "FAILED":
                assert await measuring(client, "own") == []
            answer = await http.post(f"/flow_runs/{own.id}/set_state", json={"state": {"type": state}})
            assert answer.json()["state"]["type"] == state
        run = await client.read_flow_run(own.id)
    assert (run.name, run.flow_version, run.state.name) == ("own", "1", "Failed")


async def test_incomplete_pieces_are_fetched_once(locked, own, box, monkeypatch):
    async with box.http() as http, locked.client() as client:
        for number in range(12):
            piece = {"parcel": str(number), "place": 0, "pieces": 2, "text": "x" * 100_000}
            record = {"type": "bench-record", "flow_run_id": str(own.id), "data": piece}
            assert (await http.post("/artifacts/", json=record)).status_code == 201
        fetched, read = [], client.read_artifacts

        async def noted(**asked):
            fetched.extend(page := await read(**asked))
            return page

        monkeypatch.setattr(client, "read_artifacts", noted)
        queue = ArtifactQueue(client)
        for _ in range(3):
            assert await queue.new([own.id]) == []
        assert len(fetched) == 12
        monkeypatch.setattr("tasks.delivery.artifact_queue.HELD_S", 0)
        assert await queue.new([own.id]) == [] and len(fetched) == 12
        of_it = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[own.id]))
        assert await read(artifact_filter=of_it) == []


async def test_idle_strangers_do_not_lock_the_job_out(own, box, monkeypatch):
    """Other users of the box can connect: 32 silent connections were enough."""
    monkeypatch.setattr(callers, "STRANGER_S", 3)
    streams = [await asyncio.open_connection("127.0.0.1", box.port) for _ in range(CONNECTIONS + 20)]
    async with box.http() as http:
        assert (await http.get(f"/flow_runs/{own.id}")).status_code == 200
        async with asyncio.timeout(60):
            for reader, writer in streams:
                assert await reader.read(1) == b""
                writer.close()
        assert (await http.get(f"/flow_runs/{own.id}")).status_code == 200  # by the connection that it has


async def test_strangers_spend_nothing_of_the_jobs_requests(own, box):
    box.limits.strangers, box.limits.requests = Allowance(5, 0.001), Allowance(3, 0.001)
    async with httpx.AsyncClient(base_url=box.url, trust_env=False, timeout=60) as nobody:
        codes = [(await nobody.get(f"/flow_runs/{own.id}")).status_code for _ in range(7)]
    async with box.http() as http:
        mine = [(await http.get(f"/flow_runs/{own.id}")).status_code for _ in range(3)]
    assert codes == [401] * 5 + [429] * 2 and mine == [200] * 3


def forged(name, about, run_id, **payload):
    related = {"prefect.resource.id": f"prefect.flow-run.{run_id}", "prefect.resource.role": "flow-run"}
    event = {"event": name, "resource": {"prefect.resource.id": about}, "related": [related]}
    return json.dumps(event | {"payload": payload, "occurred": NOW, "id": str(uuid.uuid4())})


async def test_no_event_changes_another_run(own, theirs, box, caplog):
    state = {"validated_state": {"type": "COMPLETED", "name": "Completed"}, "intended": {}}
    task = {"task_run": {"task_key": "k", "dynamic_key": "0", "name": "forged"}}
    resource, run = f"prefect.task-run.{theirs.task_run_id}", f"prefect.flow-run.{theirs.other.id}"
    events = [
        forged("prefect.task-run.Completed", resource, own.id, **state, **task),
        forged("prefect.task-run.Completed", resource, theirs.other.id, **state, **task),
        forged("prefect.flow-run.Completed", run, theirs.other.id),
        forged("bench.regression", "gridbench.night", own.id),
        forged("prefect.artifact.created", f"prefect.artifact.{theirs.artifact_id}", own.id),
        "[]",
    ]

    def refused():
        return [record for record in caplog.records if "EVENT '/api/events/in'" in record.message]

    before = await theirs.everything(own.id)
    async with box.socket("/events/in") as opened, asyncio.timeout(60):
        for event in events:
            await opened.send(event)
        while len(refused()) < len(events):
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)  # the server records task runs a moment after their events
    assert await theirs.everything(own.id) == before
    assert len(refused()) == len(events)


async def test_a_flood_ends_at_the_worker(locked, own, box, caplog):
    """It is slowed down, endless bodies are cut off, connections are limited."""
    box.limits.requests.per_s = 0.01  # a slow machine asks no faster than the allowance grows back

    async def endless():
        while True:
            yield b"[" * 65536

    async with box.http() as http:
        with contextlib.suppress(httpx.HTTPError):  # the connection can end before the answer is read
            assert (await http.post("/logs/", content=endless())).status_code == 413
        gate = asyncio.Semaphore(20)

        async def ask():
            async with gate:
                return (await http.get(f"/flow_runs/{uuid.uuid4()}")).status_code

        codes = await asyncio.gather(*(ask() for _ in range(420)))
        assert set(codes) == {403, 429}
    streams = [await asyncio.open_connection("127.0.0.1", box.port) for _ in range(60)]
    async with asyncio.timeout(30):
        while len([reader for reader, _ in streams if reader.at_eof()]) < 60 - CONNECTIONS:
            await asyncio.sleep(0.1)
    for _, writer in streams:
        writer.close()
    async with locked.client() as client:
        assert (await client.read_flow_run(own.id)).state.is_pending()
    assert len(said(caplog)) < 40


async def listens(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_the_tunnel_ends_with_its_connection_and_leaves_nothing(locked, own, monkeypatch):
    with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patched, locked.settings():
        patched.setattr(tempfile, "tempdir", folder)  # other tests have tunnels in the usual one
        async with far_end(own) as far:
            (tunnel,) = Path(folder).glob("gridbench-tunnel-*")
        async with asyncio.timeout(60):
            while tunnel.exists() or await listens(far.port):
                await asyncio.sleep(0.1)
