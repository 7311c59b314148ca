"""Requests and events of a box that knows the token, drawn by Hypothesis: only allowed ones pass."""

import asyncio
import base64
import json
import logging
import uuid
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prefect.client.base import ServerType
from prefect.client.schemas.objects import FlowRun
from prefect.events.schemas.events import Event
from prefect.exceptions import ObjectNotFound
from pydantic import ValidationError

from infra.workers.brand import BRAND
from infra.workers.ssh.proxy import app
from infra.workers.ssh.proxy.app import JobProxy, is_code_of, rules_of
from infra.workers.ssh.proxy.bodies import OWN_STATES
from infra.workers.ssh.proxy.events import OwnThings
from infra.workers.ssh.proxy.limits import Allowances, Refusal
from tests.mutations import damaged_text

OWN, OTHER, TASK = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)
RUN = FlowRun(id=OWN, flow_id=OTHER, deployment_id=TASK, work_pool_name="ssh")
RULES = rules_of(RUN)
TOKEN, SECRET = "box:token", "the-key-of-another-box"
HEADERS = [(b"authorization", b"Basic " + base64.b64encode(TOKEN.encode()))]
NOW = "2026-01-01T00:00:00Z"
RECORD = {"type": BRAND.artifact_type, "flow_run_id": str(OWN)}
LINE = {"flow_run_id": str(OWN), "name": "x", "level": 20, "message": "x", "timestamp": NOW}
PAGES = [
    ("POST", f"/flow_runs/{OWN}/set_state", {"state": {"type": "RUNNING", "message": "x"}, "force": True}),
    ("PATCH", f"/flow_runs/{OWN}", {"name": "x", "flow_version": "1", "empirical_policy": {"retries": 1}}),
    ("POST", "/artifacts/", RECORD | {"data": {"parcel": "p", "place": 0, "pieces": 1, "text": "x"}}),
    ("POST", "/artifacts/", RECORD | {"data": "{}", "task_run_id": str(TASK)}),
    ("POST", "/logs/", [{**LINE, "task_run_id": None}, {**LINE, "task_run_id": str(TASK)}]),
]
BODIES = [page[2] for page in PAGES]
EVENT = {
    "event": "prefect.task-run.Running",
    "resource": {"prefect.resource.id": f"prefect.task-run.{TASK}"},
    "related": [{"prefect.resource.id": f"prefect.flow-run.{OWN}", "prefect.resource.role": "flow-run"}],
    "payload": {"task_run": {"task_key": "k"}},
    "occurred": NOW,
    "id": str(TASK),
}
PATHS = [path for _, path in RULES] + [f"/flow_runs/{OTHER}", "/flow_runs/filter", "/variables/"]
HOLD_SECRETS = {
    f"/flow_runs/{OWN}": ("job_variables", "infrastructure_pid"),
    f"/deployments/{TASK}": ("job_variables", "parameters"),
    "/work_pools/ssh": ("base_job_template",),
}
MANY = settings(max_examples=2000)


class Api:
    """In place of Prefect's client: note each request, and answer with all fields that can hold a secret."""

    server_type = ServerType.SERVER

    def __init__(self):
        self.asked = []

    async def request(self, method, path, json=None):
        self.asked.append((method, path, json))
        answer = {"id": str(TASK)} | dict.fromkeys(
            HOLD_SECRETS.get(path, ()) if method == "GET" else (), SECRET
        )
        return httpx.Response(200, json=answer, request=httpx.Request(method, f"http://api{path}"))

    async def read_flow_run(self, run_id):
        return SimpleNamespace(state=None)

    async def read_task_run(self, task_id):
        if task_id == TASK:
            raise ObjectNotFound(None)
        return SimpleNamespace(flow_run_id=OTHER)


API = Api()
PROXY = JobProxy(RUN, "box", API, logging.getLogger("fuzz"), {TOKEN})


async def answer_to(method, path, body, headers):
    sent = []
    scope = {
        "type": "http",
        "method": method,
        "raw_path": path,
        "path": "/",
        "headers": headers,
        "query_string": b"",
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await PROXY(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def of_the_own_run(path, body):
    """Return whether a passed body is one that a box can send."""
    if body is None:
        return True
    if path == "/logs/":
        return all(line["flow_run_id"] == str(OWN) for line in body)
    if path == "/artifacts/":
        kind = {"flow_run_id": str(OWN), "type": BRAND.artifact_type}
        return kind.items() <= body.items() and not {"key", "description", "metadata_"} & {
            key for key, value in body.items() if value is not None
        }
    if path.endswith("/set_state"):
        return body["state"]["type"] in {state.value for state in OWN_STATES}
    return body.keys() <= {"flow_version"}


paths = st.sampled_from(PATHS).map(lambda path: f"/api{path}".encode())
odd_paths = st.builds(
    lambda path, at, more: path[: at % (len(path) + 1)] + more + path[at % (len(path) + 1) :],
    paths,
    st.integers(0, 200),
    st.sampled_from([b"/", b"..", b"%2e%2e/", b"\x00", b"?x", b"#", b";", b"%", b"\xff"])
    | st.binary(max_size=4),
)


def check(method, path, body, headers):
    """Send a request; check the proxy's answer and the requests it passed on."""
    PROXY.limits, API.asked = Allowances(), []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(app, "SLOWLY_S", 0)
        status, answered = asyncio.run(answer_to(method, path, body, headers))
    assert status in {200, 204, 400, 401, 403, 413, 422, 429} and SECRET.encode() not in answered
    for asked, at, sent in API.asked:
        assert (asked, at) in RULES or is_code_of(OWN, at)
        assert of_the_own_run(at, sent), sent
        assert headers is HEADERS or RULES[asked, at].open
        json.dumps(sent).encode()  # as the client of the server does
    return status


@MANY
@given(
    method=st.sampled_from(["GET", "POST", "PATCH", "PUT", "DELETE"]),
    path=paths | odd_paths,
    body=st.sampled_from(BODIES).flatmap(damaged_text) | st.binary(max_size=200),
    headers=st.just(HEADERS)
    | st.lists(st.tuples(st.just(b"authorization"), st.binary(max_size=30)), max_size=2),
)
def test_each_request_is_answered_and_passed_on_only_if_it_is_the_runs_own(method, path, body, headers):
    check(method, path, body, headers)


@MANY
@given(st.sampled_from(PAGES).flatmap(lambda page: st.tuples(st.just(page[:2]), damaged_text(page[2]))))
def test_each_body_for_its_own_page_is_read_or_refused(asked):
    (method, path), body = asked
    check(method, f"/api{path}".encode(), body, HEADERS)


@pytest.mark.parametrize("page", PAGES)
def test_each_body_is_valid_before_it_is_damaged(page):
    method, path, body = page
    assert check(method, f"/api{path}".encode(), json.dumps(body).encode(), HEADERS) < 300


@MANY
@given(damaged_text(EVENT))
def test_an_event_is_read_or_refused_and_is_the_runs_own(text):
    try:
        event = Event.model_validate_json(text)
    except ValidationError:
        return
    try:
        asyncio.run(OwnThings(API, OWN).check(event))
    except Refusal:
        return
    runs = {each.id for each in event.related if each.id.startswith("prefect.flow-run.")}
    assert runs <= {f"prefect.flow-run.{OWN}"}
    assert event.resource.id in {f"prefect.task-run.{TASK}", f"prefect.flow-run.{OWN}"}
    event.model_dump_json()
