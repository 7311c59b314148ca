"""What the kubernetes-jobs worker says of a job that others delete, and of one that it may not delete."""

import time

import pytest
from kubernetes_asyncio import client, config

from tasks.dispatch.job_end import JobEnd, end_of, has_ended
from tests.infra.workers.kubernetes.worker_checks import NAMESPACE

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

# What an engine does: it says that it runs and, when it is ended by a signal, that it crashed, without a reason.
ENGINE = """
import json, os, signal, sys, time, urllib.request
def say(**state):
    url = os.environ["PREFECT_API_URL"] + "/flow_runs/" + os.environ["PREFECT__FLOW_RUN_ID"] + "/set_state"
    body = json.dumps({"state": state, "force": True}).encode()
    urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}))
def ended(*_):
    say(type="CRASHED", name="Crashed", message="Execution was aborted by a termination signal.")
    sys.exit(143)
signal.signal(signal.SIGTERM, ended)
say(type="RUNNING")
time.sleep(600)
"""


@pytest.fixture
async def admin(cluster, tmp_path):
    """The API of the cluster as its administrator uses it."""
    api = await config.new_client_from_config(str(cluster.kubeconfig(tmp_path / "admin")))
    yield api
    await api.close()


@pytest.mark.parametrize("what", ["pod", "job"])
async def test_a_pod_or_job_that_somebody_deletes_has_its_name_at_once(pool, admin, tmp_path, what):
    (tmp_path / "engine.py").write_text(ENGINE)
    run_id = await pool.start("lane", script=f"exec python3 {tmp_path / 'engine.py'}", grace_s=30)
    async with pool.worker():
        run = await pool.until(run_id, lambda run: run.state.is_running())
        name = run.infrastructure_pid.partition(":")[2]
        core, batch = client.CoreV1Api(admin), client.BatchV1Api(admin)
        if what == "pod":
            pods = await core.list_namespaced_pod(NAMESPACE, label_selector=f"job-name={name}")
            await core.delete_namespaced_pod(pods.items[0].metadata.name, NAMESPACE)
        else:
            await batch.delete_namespaced_job(name, NAMESPACE, propagation_policy="Foreground")
        started = time.monotonic()
        run = await pool.until(run_id, has_ended)
    assert time.monotonic() - started < 25, "nobody waits for what is known"
    assert (run.state.name, end_of(run)) == ("PodLost", JobEnd.TAKEN_AWAY), run.state.message
    assert "deleted from outside" in run.state.message


async def test_what_could_not_be_deleted_is_not_called_deleted_and_is_told_once(pool, cluster):
    refusal = '{"kind": "Status", "status": "Failure", "message": "jobs.batch is forbidden", "code": 403}'
    cluster.control.fault("DELETE", "*/jobs/*", 403, times=None, body=refusal)
    run_id = await pool.start("lane", script="echo on; sleep 6; echo off")
    async with pool.worker():
        await pool.until(run_id, lambda run: run.infrastructure_pid)
        await pool.cancel(run_id)
        ended = await pool.end(run_id)
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 2) == ["on", "off"]
    assert ended.name == "Cancelled" and "deleted" not in ended.message
    assert ended.message.endswith("ended by itself first: The container ended with exit code 0.")
    warned = [line.message for line in await pool.logs(run_id) if "is not deleted yet" in line.message]
    assert len(warned) == 1 and "has no right to delete jobs" in warned[0]
    assert len(cluster.control.asked("DELETE", "*/jobs/*")) > 2, "it was tried again and again"
    cluster.control.requests.clear()


async def test_a_gpu_that_no_node_has_is_not_waited_for_as_one_that_is_taken(pool):
    run_id = await pool.start("gpu", script="true", gpus=1, schedule_within_s=3)
    async with pool.worker():
        ended = await pool.end(run_id)
    assert ended.name == "Unschedulable" and "Insufficient nvidia.com/gpu" in ended.message, ended.message
