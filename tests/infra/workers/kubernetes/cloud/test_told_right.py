import asyncio
import time

import pytest
from kubernetes_asyncio import client, config
from prefect.states import Crashed, Running

from tasks.dispatch.job_end import BEGAN_LABEL, ENDED_LABEL, JobEnd, end_of, has_ended
from tests.infra.workers.kubernetes.worker_checks import NAMESPACE

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

# The message of an engine that a signal ends, before its container ends: it can't know the reason.
VAGUE = "Execution was aborted by a termination signal."


@pytest.fixture
async def admin(cluster, tmp_path):
    api = await config.new_client_from_config(str(cluster.kubeconfig(tmp_path / "admin")))
    yield api
    await api.close()


async def test_a_pod_deleted_from_outside_gives_its_run_the_right_state_at_once(pool, admin, tmp_path):
    waits = f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.1; done"
    script = f"trap '{waits}; exit 143' TERM; while :; do sleep 0.1; done"
    (tmp_path / "lane.sh").write_text(script)
    run_id = await pool.start("lane", script=f"exec sh {tmp_path / 'lane.sh'}", grace_s=60)
    async with pool.worker(), pool.prefect.client() as api:
        run = await pool.until(run_id, lambda run: "kubernetes.starting_s" in run.labels)
        await api.set_flow_run_state(run_id, Running(), force=True)
        name = run.infrastructure_pid.partition(":")[2]
        core = client.CoreV1Api(admin)
        pods = await core.list_namespaced_pod(NAMESPACE, label_selector=f"job-name={name}")
        await core.delete_namespaced_pod(pods.items[0].metadata.name, NAMESPACE)
        await api.set_flow_run_state(run_id, Crashed(message=VAGUE), force=True)
        (tmp_path / "go").touch()
        started = time.monotonic()
        run = await pool.until(run_id, has_ended)
    assert time.monotonic() - started < 25, "nobody waits for what is known"
    assert (run.state.name, end_of(run)) == ("PodLost", JobEnd.TAKEN_AWAY), run.state.message
    assert "deleted outside" in run.state.message


async def test_a_job_deleted_from_outside_gives_its_run_the_right_state_at_once(pool, admin, tmp_path):
    waits = f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.1; done"
    (tmp_path / "lane.sh").write_text(f"trap '{waits}; exit 143' TERM; while :; do sleep 0.1; done")
    run_id = await pool.start("lane", script=f"exec sh {tmp_path / 'lane.sh'}", grace_s=60)
    async with pool.worker(), pool.prefect.client() as api:
        run = await pool.until(run_id, lambda run: "kubernetes.starting_s" in run.labels)
        await api.set_flow_run_state(run_id, Running(), force=True)
        name = run.infrastructure_pid.partition(":")[2]
        await client.BatchV1Api(admin).delete_namespaced_job(name, NAMESPACE, propagation_policy="Background")
        await asyncio.sleep(2)  # the Job is gone; before its pod ends, the engine in it speaks
        assert (await pool.run(run_id)).state.is_running(), "its pod has not ended"
        await api.set_flow_run_state(run_id, Crashed(message=VAGUE), force=True)
        (tmp_path / "go").touch()
        started = time.monotonic()
        run = await pool.until(run_id, has_ended)
    assert time.monotonic() - started < 25, "nobody waits for what is known"
    assert (run.state.name, end_of(run)) == ("PodLost", JobEnd.TAKEN_AWAY), run.state.message
    assert "was deleted outside of Prefect before it ended" in run.state.message
    assert run.labels[ENDED_LABEL] >= run.labels[BEGAN_LABEL] > 0


async def test_an_orphaned_pod_keeps_its_run_until_it_ends(pool, admin, tmp_path):
    """No successor starts next to it, and its time is billed."""
    waits = f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.1; done"
    run_id = await pool.start("lane", script=waits)
    async with pool.worker():
        run = await pool.until(run_id, lambda run: "kubernetes.starting_s" in run.labels)
        name = run.infrastructure_pid.partition(":")[2]
        await client.BatchV1Api(admin).delete_namespaced_job(name, NAMESPACE, propagation_policy="Orphan")
        await asyncio.sleep(2)
        assert not (await pool.run(run_id)).state.is_final()
        (tmp_path / "go").touch()
        assert (await pool.end(run_id)).name == "Completed"
        run = await pool.until(run_id, lambda run: ENDED_LABEL in run.labels)
    assert run.labels[ENDED_LABEL] - run.labels[BEGAN_LABEL] >= 1


async def test_a_failed_deletion_is_reported_once_and_not_called_deleted(pool, cluster, tmp_path):
    refusal = '{"kind": "Status", "status": "Failure", "message": "jobs.batch is forbidden", "code": 403}'
    cluster.control.fault("DELETE", "*/jobs/*", 403, times=None, body=refusal)
    waits = f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.2; done"
    run_id = await pool.start("lane", script=f"echo on; {waits}; echo off")
    async with pool.worker():
        await pool.until(run_id, lambda run: run.infrastructure_pid)
        await pool.cancel(run_id)
        async with asyncio.timeout(120):
            while len(cluster.control.asked("DELETE", "*/jobs/*")) < 3:  # it is tried again and again
                await asyncio.sleep(0.1)
        (tmp_path / "go").touch()
        ended = await pool.end(run_id)
        assert await pool.lines_when(run_id, lambda lines: len(lines) >= 2) == ["on", "off"]
    assert ended.name == "Cancelled" and "deleted" not in ended.message
    assert ended.message.endswith("ended by itself first: The container ended with exit code 0.")
    warned = []
    async with asyncio.timeout(60):
        while not warned:  # the worker's own lines are sent together, every few seconds
            said = [line.message for line in await pool.logs(run_id)]
            warned = [message for message in said if "is not deleted yet" in message]
    assert len(warned) == 1 and "not allowed to delete jobs" in warned[0]
    cluster.control.requests.clear()


async def test_a_machine_that_the_cloud_does_not_have_now_is_distinguished_from_one_that_no_pool_has(
    pool, cluster
):
    """The autoscaler's backoff alone would look like a missing pool."""
    cluster.control.autoscale("l4", allocatable={"nvidia.com/gpu": "1"}, out_of_stock=True)
    run_id = await pool.start("gpu", script="true", gpus=1, schedule_within_s=3)
    async with pool.worker():
        ended = await pool.end(run_id)
    assert ended.name == "NoCapacity" and "GCE out of resources" in ended.message, ended.message
    assert "1 in backoff after failed scale-up" in ended.message


async def test_a_gpu_that_no_node_has_is_not_waited_for_as_one_that_is_taken(pool):
    run_id = await pool.start("gpu", script="true", gpus=1, schedule_within_s=3)
    async with pool.worker():
        ended = await pool.end(run_id)
    assert ended.name == "Unschedulable" and "Insufficient nvidia.com/gpu" in ended.message, ended.message
