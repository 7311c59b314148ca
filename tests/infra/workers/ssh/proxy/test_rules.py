"""What a box may say of its flow run, and how fast: no server needed."""

import json
import uuid

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.events.schemas.events import Event

from infra.workers.ssh.proxy import bodies
from infra.workers.ssh.proxy.app import is_code_of, path_of, rules_of
from infra.workers.ssh.proxy.events import subject_of
from infra.workers.ssh.proxy.limits import Allowance, Allowances, Refusal, spend
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


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ["gridbench-rental"]},
        {"infrastructure_pid": "root@other:22/x"},
        {"job_variables": {"image": "theirs"}},
        {"parameters": {"repeats": []}},
        {"empirical_policy": {"retries": 1000}},
        {"empirical_policy": {"retry_type": "reschedule"}},
    ],
)
def test_a_box_changes_nothing_of_its_run_that_a_worker_reads(change):
    assert refused(bodies.update_body, change)


@pytest.mark.parametrize("of", [str(OTHER), None])
def test_logs_and_artifacts_are_of_the_own_run(of):
    artifact = {"key": "bench-report", "data": "x", "flow_run_id": of}
    assert refused(bodies.artifact_body, artifact)
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


def test_a_role_of_a_flow_run_is_nobody_elses():
    told = event()
    told.related[0].root["prefect.resource.id"] = "prefect.flow.1"
    with pytest.raises(Refusal):
        subject_of(OWN, told)


@pytest.mark.parametrize(
    "path",
    ["/api", "/health", "http://api/api/health", "//api/health", "/API/health", "/a/../api/health", ""],
)
def test_only_what_is_below_the_root_is_looked_at(path):
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
    artifact = json.dumps({"flow_run_id": str(OWN), "data": 1}).encode()
    for read, body in ((bodies.lines_body, lines), (bodies.artifact_body, artifact)):
        with pytest.raises(Refusal, match="too many"):
            for _ in range(5000):
                read(OWN, body, limits)
