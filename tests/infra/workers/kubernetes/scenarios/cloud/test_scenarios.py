"""The kubernetes-jobs worker on any cluster: the emulator, or that of KUBECONFIG by `make test-cluster`.

Only the cluster's own API is used; a scenario that needs more is skipped.
"""

import os

import pytest

from tests.infra.workers.kubernetes.scenarios.running_jobs import WITHIN_S, running

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

GPU = "nvidia.com/gpu"


async def test_cancelling_deletes_the_job_whether_it_runs_or_waits(pool, place):
    waits = await pool.start("waits", script="true", node_selector={"gridbench/none": "none"})
    async with pool.worker():
        await pool.until(waits, lambda run: run.infrastructure_pid)
        runs, _, _ = await running(pool, place)
        for run_id in (waits, runs):
            await pool.cancel(run_id)
        for run_id in (waits, runs):
            assert (await pool.end(run_id)).name == "Cancelled"
    assert not (await place.batch.list_namespaced_job(place.name)).items


async def test_a_container_that_takes_too_much_ran_out_of_memory(pool):
    run_id = await pool.start("oom", command="python3 -c 'bytearray(1 << 30)'")
    async with pool.worker():
        ended = await pool.end(run_id, WITHIN_S)
    assert (ended.name, "memory_mib 128" in ended.message) == ("OutOfMemory", True), ended.message


async def test_an_image_that_does_not_exist_is_given_up(pool):
    run_id = await pool.start("pull", script="true", image="docker.io/library/gridbench-has-no-such-image:1")
    async with pool.worker():
        ended = await pool.end(run_id, WITHIN_S)
    assert ended.name == "ImagePullFailed", ended.message


async def test_a_pod_sees_the_gpu_that_it_asked_for(pool, place):
    nodes = (await place.core.list_node()).items
    if not any(int(node.status.allocatable.get(GPU, 0)) for node in nodes):
        pytest.skip(f"no node of this cluster offers {GPU}: that a pod sees its GPU was not checked")
    image = os.environ.get("CLUSTER_GPU_IMAGE", "nvidia/cuda:12.6.0-base-ubuntu24.04")
    run_id = await pool.start("gpu", script="nvidia-smi -L", gpus=1, image=image, memory_mib=1024)
    async with pool.worker():
        assert (await pool.end(run_id, WITHIN_S)).name == "Completed"
        lines = await pool.lines_when(run_id, bool)
    assert sum(line.startswith("GPU ") for line in lines) == 1, lines
