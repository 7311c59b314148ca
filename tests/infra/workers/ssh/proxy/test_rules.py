import json
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.events.schemas.events import Event
from prefect.exceptions import ObjectNotFound

from infra.workers.brand import BRAND
from infra.workers.ssh.proxy import bodies, events
from infra.workers.ssh.proxy.app import is_code_of, path_of, rules_of
from infra.workers.ssh.proxy.events import OwnThings, subject_of
from infra.workers.ssh.proxy.limits import ARTIFACT_BYTES, Allowance, Allowances, Refusal, spend
from tasks.delivery.artifact_encoding import TYPE
from tasks.delivery.job_orders import KEY
from tasks.travel.sending import name_of, piece_name

OWN, OTHER, TASK = (uuid.UUID(int=number) for number in (1, 2, 3))
TREE = f"sha256:{'0123456789abcdef' * 4}"
LINE = {"name": "prefect.flow_runs", "level": 20, "message": "hello", "timestamp": "2026-01-01T00:00:00Z"}


def refused(read, body, limits=None):
    with pytest.raises(Refusal) as caught:
        read(OWN, json.dumps(body).encode(), limits or Allowances())
    return str(caught.value)


@pytest.mark.parametrize("kind", ["SCHEDULED", "PAUSED"])
def test_a_box_does_not_have_its_run_started_again(kind):
    assert f"state {kind}" in refused(bodies.state_body, {"state": {"type": kind}})


def test_a_state_goes_on_without_its_result_and_is_forced_as_the_engine_does():
    asked = {"type": "COMPLETED", "name": "Unfit", "message": "no", "data": {"storage_key": "/etc/passwd"}}
    body = json.dumps({"state": asked, "force": True}).encode()
    sent = bodies.state_body(OWN, body, Allowances())
    assert sent == {
        "state": {"type": "COMPLETED", "name": "Unfit", "message": "no", "state_details": {}},
        "force": False,
    }
    crashed = json.dumps({"state": {"type": "CRASHED"}, "force": True}).encode()
    assert bodies.state_body(OWN, crashed, Allowances())["force"]


def test_a_message_of_a_state_is_a_sentence():
    """It is in the record of each unmeasured repeat."""
    body = json.dumps({"state": {"type": "FAILED", "message": "x" * 100_000}}).encode()
    message = bodies.state_body(OWN, body, Allowances())["state"]["message"]
    assert message == "x" * bodies.SENTENCE


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ["gridbench-rental"]},
        {"infrastructure_pid": "root@other:22/x"},
        {"job_variables": {"image": "theirs"}},
        {"parameters": {"repeats": []}},
        {"empirical_policy": {"retries": 1000}},
        {"state_type": "COMPLETED"},
        {"empirical_policy": {"retry_type": "reschedule"}},
    ],
)
def test_a_box_changes_nothing_of_its_run_that_a_worker_reads(change):
    assert refused(bodies.update_body, change)


def test_a_box_neither_names_its_run_nor_has_it_tried_again():
    """The engine requests both; it is answered, and nothing changes."""
    asked = {"name": "a-run", "empirical_policy": {"retries": 10}, "flow_version": "1"}
    assert bodies.update_body(OWN, json.dumps(asked).encode(), Allowances()) == {"flow_version": "1"}
    del asked["flow_version"]
    assert bodies.update_body(OWN, json.dumps(asked).encode(), Allowances()) == {}


def test_where_flows_of_any_kind_run_they_set_their_name_and_retries(monkeypatch):
    monkeypatch.setattr(bodies, "BRAND", replace(BRAND, artifact_type=""))
    asked = {"name": "mine", "empirical_policy": {"retries": 2}}
    assert bodies.update_body(OWN, json.dumps(asked).encode(), Allowances()) == asked
    table = {"key": "my-table", "type": "table", "data": "[]", "flow_run_id": str(OWN)}
    assert bodies.artifact_body(OWN, json.dumps(table).encode(), Allowances()) == table


RECORD = {"type": TYPE, "data": "{}", "flow_run_id": str(OWN)}


def test_a_record_goes_on():
    assert bodies.artifact_body(OWN, json.dumps(RECORD).encode(), Allowances()) == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"type": "markdown", "key": "bench-report"},
        {"type": None},
        {"type": "image", "data": "http://127.0.0.1:9/seen.png"},
        {"key": "bench-report"},
        {"description": "[click](javascript:alert(1))"},
        {"metadata_": {"a": "b"}},
        {"data": "x" * ARTIFACT_BYTES},
    ],
)
def test_a_box_makes_no_artifact_but_records(change):
    assert refused(bodies.artifact_body, RECORD | change)


@pytest.mark.parametrize(
    "body", [RECORD | {"task_run_id": str(TASK)}, [LINE | {"task_run_id": str(TASK)}, LINE]]
)
def test_the_task_runs_in_a_body_are_found(body):
    assert bodies.tasks_in(body) == {TASK} and bodies.tasks_in({"state": {}}) == set()


class Server:
    def __init__(self):
        self.asked = 0

    async def read_task_run(self, task_id):
        self.asked += 1
        if task_id != TASK:
            raise ObjectNotFound(None)
        return SimpleNamespace(flow_run_id=OTHER)


async def test_nothing_is_said_of_another_runs_task_and_new_ones_are_asked_for_once():
    own = OwnThings(server := Server(), OWN)
    with pytest.raises(Refusal):
        await own.check_task(TASK)
    for _ in range(3):
        await own.check_task(OTHER)  # the id of no task run yet
    assert server.asked == 2


async def test_the_names_of_own_things_have_a_limit(monkeypatch):
    monkeypatch.setattr(events, "MOST_OWN", 3)
    own = OwnThings(Server(), OWN)
    with pytest.raises(Refusal) as caught:
        for number in range(9):
            await own.check_task(uuid.UUID(int=100 + number))
    assert caught.value.status == 429


@pytest.mark.parametrize("of", [str(OTHER), None])
def test_logs_and_artifacts_are_of_the_own_run(of):
    assert "flow" in refused(bodies.artifact_body, RECORD | {"flow_run_id": of})
    assert refused(bodies.lines_body, [LINE | {"flow_run_id": str(OWN)}, LINE | {"flow_run_id": of}])


def event(name="prefect.task-run.Running", about=f"prefect.task-run.{TASK}", runs=(OWN,), **payload):
    related = [
        {"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.role": "flow-run"}
        for run in runs
    ]
    return Event(event=name, resource={"prefect.resource.id": about}, related=related, payload=payload)


def test_events_of_own_tasks_and_the_own_heartbeat_go_on():
    assert subject_of(OWN, event(task_run={"task_key": "k"})) == f"prefect.task-run.{TASK}"
    beat = event("prefect.flow-run.heartbeat", f"prefect.flow-run.{OWN}")
    assert subject_of(OWN, beat) is None


@pytest.mark.parametrize(
    "wrong",
    [
        event(runs=(OTHER,)),
        event(runs=()),
        event(runs=(OWN, OTHER)),
        event("prefect.flow-run.Completed", f"prefect.flow-run.{OWN}"),
        event("prefect.flow-run.heartbeat", f"prefect.flow-run.{OTHER}"),
        event("bench.regression", "bench.night.1"),
        event("prefect.task-run.Completed", f"prefect.flow-run.{OWN}"),
        event(task_run={"id": str(OTHER)}),
        event(task_run={"flow_run_id": str(OTHER)}),
    ],
)
def test_events_of_anything_else_are_refused(wrong):
    with pytest.raises(Refusal):
        subject_of(OWN, wrong)


def test_an_event_with_a_flow_run_role_for_another_object_is_refused():
    told = event()
    told.related[0].root["prefect.resource.id"] = "prefect.flow.1"
    with pytest.raises(Refusal):
        subject_of(OWN, told)


@pytest.mark.parametrize(
    "path",
    ["/api", "/health", "http://api/api/health", "//api/health", "/API/health", "/a/../api/health", ""],
)
def test_only_paths_below_the_root_are_allowed(path):
    with pytest.raises(Refusal):
        path_of({"raw_path": path.encode()})


def test_a_path_is_compared_as_it_came():
    run = FlowRun(id=OWN, flow_id=OTHER, deployment_id=TASK, work_pool_name="ssh")
    rules = rules_of(run)
    assert ("GET", f"/flow_runs/{OWN}") in rules and ("DELETE", f"/flow_runs/{OWN}") not in rules
    assert [key for key in rules if "/input" in key[1]] == [("GET", f"/flow_runs/{OWN}/input/{KEY}")]
    for path in (
        f"/flow_runs/{OWN}/",
        f"/flow_runs/%30{str(OWN)[1:]}",
        f"/flow_runs/{OTHER}",
        "/flow_runs/filter",
    ):
        assert ("GET", path_of({"raw_path": f"/api{path}".encode()})) not in rules


@pytest.mark.parametrize("own", [name_of(TREE), piece_name(TREE, 0), piece_name(TREE, 9999)])
def test_a_box_reads_the_code_that_it_was_sent_and_nothing_beside_it(own):
    assert is_code_of(OWN, f"/flow_runs/{OWN}/input/{own}")
    others = (
        f"{own}/",
        f"{own}?x",
        f"{own}%00",
        f"{own}\n",
        "code-",
        "codes",
        "keepalive",
        f"../{own}",
        f"x{own}",
    )
    assert not any(is_code_of(OWN, f"/flow_runs/{OWN}/input/{other}") for other in others)
    assert not is_code_of(OWN, f"/flow_runs/{OTHER}/input/{own}") and not is_code_of(OWN, f"/{own}")


def test_an_allowance_is_spent_and_grows_back():
    now = [0.0]
    allowance = Allowance(10, 2, lambda: now[0])
    assert [allowance.take(8), allowance.take(4)] == [0, 1]
    now[0] = 1
    assert allowance.take(4) == 0
    with pytest.raises(Refusal) as caught:
        spend(allowance, 1000, "lines")
    assert (caught.value.status, caught.value.after_s) == (429, 60)
    now[0] = 1000
    assert [allowance.take(10), allowance.take(1) > 0] == [0, True]


def test_a_flood_of_lines_and_artifacts_ends():
    limits = Allowances()
    lines = json.dumps([LINE | {"flow_run_id": str(OWN)}] * 5000).encode()
    artifact = json.dumps(RECORD).encode()
    for read, body in ((bodies.lines_body, lines), (bodies.artifact_body, artifact)):
        with pytest.raises(Refusal, match="too many"):
            for _ in range(5000):
                read(OWN, body, limits)


def test_the_bytes_that_a_box_sends_in_four_hours_are_bounded():
    """64 MiB at once, 1 GiB in the time of a job."""
    now = [0.0]
    limits = Allowances()
    limits.sent_bytes.clock = lambda: now[0]
    limits.sent_bytes._at = sent_bytes = 0
    while now[0] < 4 * 3600:
        if wait_s := limits.sent_bytes.take(1024 * 1024):
            now[0] += wait_s
        else:
            sent_bytes += 1024 * 1024
    assert sent_bytes < 1.1 * 1024**3


def test_many_empty_lines_count_as_their_size_on_the_server():
    limits = Allowances()
    limits.lines = Allowance(10**9, 1)
    body = json.dumps([LINE | {"flow_run_id": str(OWN), "message": ""}] * 20_000).encode()
    with pytest.raises(Refusal, match="too many bytes"):
        for _ in range(20):
            bodies.lines_body(OWN, body, limits)
