import asyncio

import pytest

from tests.infra.workers.kubernetes.worker_checks import ACCELERATOR, NAMESPACE

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


L4 = {"cloud.google.com/gke-accelerator": "nvidia-l4"}


async def test_a_node_that_comes_late_is_waited_for(pool, cluster):
    cluster.control.autoscale(
        "l4",
        3,
        labels=L4,
        taints=(GPU_TAINT,),
        allocatable={"nvidia.com/gpu": "1", "cpu": "8", "memory": "30Gi"},
    )
    run_id = await pool.start("gpu", script="echo on", gpus=1, **ACCELERATOR)
    async with pool.worker():
        assert (await pool.end(run_id)).name == "Completed"
    labels = (await pool.run(run_id)).labels
    assert labels["kubernetes.unscheduled_s"] >= 2 and labels["kubernetes.starting_s"] >= 0


async def test_a_quota_that_is_used_up_is_no_capacity(pool, cluster):
    cluster.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "few", "namespace": NAMESPACE},
                "spec": {"hard": {"pods": "0"}},
            }
        ]
    )
    run_id = await pool.start("full", script="true", schedule_within_s=8)
    async with pool.worker():
        ended = await pool.end(run_id)
    assert ended.name == "NoCapacity" and "exceeded quota: few" in ended.message, ended.message


@pytest.mark.parametrize("how", ["refused", "503"])
async def test_an_api_that_is_away_for_a_while_loses_nothing(pool, cluster, how):
    script = "echo on; sleep 6; echo off"
    run_id = await pool.start("r", script=script)
    async with pool.worker():
        await pool.lines_when(run_id, lambda lines: True, within_s=1)
        await pool.until(run_id, lambda run: run.infrastructure_pid)
        await asyncio.to_thread(cluster.control.go_away, how)
        later = await pool.start("later", script="echo later")
        await asyncio.sleep(8)  # the first one ends meanwhile
        await asyncio.to_thread(cluster.control.come_back)
        for one, lines in ((run_id, ["on", "off"]), (later, ["later"])):
            assert (await pool.end(one)).name == "Completed"
            assert await pool.lines_when(one, lambda found, of=lines: len(found) >= len(of)) == lines
