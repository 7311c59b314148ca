"""What the kubernetes-jobs worker must do on any cluster: on the stand-in here, on that of KUBECONFIG by
`make test-cluster`. A cluster's own API is all that is used: what needs more than that says so and is skipped."""

import asyncio
import os
import time
import uuid
from pathlib import Path

import pytest
import yaml
from kubernetes_asyncio import client, config, utils

from infra.workers.kubernetes.worker import KubernetesJobsWorker
from tests.emulators.kube.podman import Containers
from tests.emulators.kube.server import kube
from tests.infra.workers.worker_prefect import Pool, Prefect

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

REAL = os.environ.get("CLUSTER_KUBECONFIG")
IMAGE = os.environ.get("CLUSTER_IMAGE", "docker.io/library/python:3.11-slim")
ROLE = Path(__file__).parents[5] / "infra/gke/role.yaml"
GPU = "nvidia.com/gpu"
WITHIN_S = 600  # for a real cluster to pull the image


@pytest.fixture(scope="module")
def prefect(tmp_path_factory):
    server = Prefect(tmp_path_factory.mktemp("prefect"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def admin(request, tmp_path_factory):
    """The administrator's kubeconfig."""
    if REAL:
        yield Path(REAL)
        return
    base_image = request.getfixturevalue("base_image")
    with kube(Containers(), namespaces=()) as cluster:
        cluster.control.images[IMAGE] = base_image
        yield cluster.kubeconfig(tmp_path_factory.mktemp("kube") / "admin")


class Place:
    """A namespace of this test's own, as the administrator sees it."""

    def __init__(self, api, namespace):
        self.name = namespace
        self.core, self.batch = client.CoreV1Api(api), client.BatchV1Api(api)

    async def running_pod(self, job):
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            pods = await self.core.list_namespaced_pod(self.name, label_selector=f"job-name={job}")
            if pods.items and pods.items[0].status.phase == "Running":
                return pods.items[0].metadata.name
            await asyncio.sleep(0.2)
        raise AssertionError(f"no pod of {job} runs")


def manifests(namespace):
    """The Role with all that belongs to it, in another namespace."""
    for thing in yaml.safe_load_all(ROLE.read_text()):
        place = thing["metadata"]
        place["name" if thing["kind"] == "Namespace" else "namespace"] = namespace
        for subject in thing.get("subjects", ()):
            subject["namespace"] = namespace
        yield thing


@pytest.fixture
async def place(admin, tmp_path, monkeypatch):
    namespace = f"gridbench-test-{uuid.uuid4().hex[:8]}"
    api = await config.new_client_from_config(str(admin))
    place = Place(api, namespace)
    for thing in manifests(namespace):
        await utils.create_from_dict(api, thing)
    asked = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600)
    )
    token = await place.core.create_namespaced_service_account_token("gridbench-worker", namespace, asked)
    document = yaml.safe_load(admin.read_text())
    document["users"] = [
        {"name": user["name"], "user": {"token": token.status.token}} for user in document["users"]
    ]
    (tmp_path / "worker").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "worker"))
    monkeypatch.setattr(config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "worker"))
    try:
        yield place
    finally:
        await place.core.delete_namespace(namespace)
        await api.close()


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    for name, value in {"POLL_S": "0.5", "PULL_S": "5", "EXPLAIN_S": "1"}.items():
        monkeypatch.setenv(f"KUBERNETES_JOBS_WORKER_{name}", value)


@pytest.fixture
async def pool(prefect, place):
    with prefect.settings():
        yield await Pool.make(
            prefect, KubernetesJobsWorker, namespace=place.name, image=IMAGE, memory_mib=128, vcpus=0.1
        )


ENDS = {
    # name: job variables, state, words of its message
    "exits-0": ({"script": "echo fine"}, "Completed", "exit code 0"),
    "exits-9": ({"script": "echo oops >&2; exit 9"}, "Crashed", "exit code 9"),
    "late": ({"script": "sleep 100", "timeout_s": 10, "grace_s": 1}, "TimedOut", "timeout_s 10"),
    "no-node": (
        {"script": "true", "node_selector": {"gridbench/none": "none"}, "schedule_within_s": 8},
        "Unschedulable",
        "nodes are available",
    ),
    "chatty": ({"script": "seq 1 500; printf unfinished"}, "Completed", "exit code 0"),
}


@pytest.mark.chaos
async def test_every_job_ends_in_the_right_state(pool):
    runs = {name: await pool.start(name, **variables) for name, (variables, _, _) in ENDS.items()}
    async with pool.worker():
        states = {name: await pool.end(run_id, WITHIN_S) for name, run_id in runs.items()}
        chatty = await pool.lines_when(runs["chatty"], lambda lines: len(lines) >= 501)
    said = {name: (state.name, state.message) for name, state in states.items()}
    assert {name: state for name, (state, _) in said.items()} == {
        n: state for n, (_, state, _) in ENDS.items()
    }, said
    for name, (_, _, words) in ENDS.items():
        assert words in states[name].message, name
    assert chatty == [*(str(n) for n in range(1, 501)), "unfinished"]


async def running(pool, place, **variables):
    """A run whose container runs, with its job and pod."""
    run_id = await pool.start("long", script="echo on; sleep 600", grace_s=1, **variables)
    run = await pool.until(run_id, lambda run: run.infrastructure_pid, WITHIN_S)
    job = run.infrastructure_pid.partition(":")[2]
    return run_id, job, await place.running_pod(job)


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


@pytest.mark.chaos
async def test_a_pod_that_somebody_deletes_is_lost(pool, place):
    async with pool.worker():
        run_id, _, pod = await running(pool, place)
        await place.core.delete_namespaced_pod(pod, place.name)
        ended = await pool.end(run_id)
    assert (ended.name, pod in ended.message) == ("PodLost", True) or "exit code" in ended.message, ended


@pytest.mark.chaos
async def test_a_pod_that_is_evicted_by_the_api_was_drained(pool, place):
    async with pool.worker():
        run_id, _, pod = await running(pool, place)
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=pod, namespace=place.name))
        await place.core.create_namespaced_pod_eviction(pod, place.name, eviction)
        ended = await pool.end(run_id)
    assert ended.name == "Drained", ended.message


@pytest.mark.chaos
async def test_a_job_that_somebody_deletes_ends_its_run(pool, place):
    async with pool.worker():
        run_id, job, _ = await running(pool, place)
        await place.batch.delete_namespaced_job(job, place.name, propagation_policy="Foreground")
        ended = await pool.end(run_id)
    assert ended.name == "Crashed" and "deleted from outside" in ended.message, ended.message


@pytest.mark.chaos
async def test_a_killed_worker_leaves_nothing_undone(pool, prefect, place):
    script = "for n in 1 2 3 4 5 6 7 8 9; do echo $n; sleep 1; done"
    run_id = await pool.start("long", script=script)
    first = prefect.worker_process(pool.name, "one", "kubernetes-jobs")
    await pool.until(run_id, lambda run: run.infrastructure_pid)
    first.kill()
    first.wait()
    async with pool.worker("one"):
        assert (await pool.end(run_id, WITHIN_S)).name == "Completed"
        lines = await pool.lines_when(run_id, lambda lines: len(lines) >= 9)
    assert lines == [str(n) for n in range(1, 10)]
    assert len((await place.batch.list_namespaced_job(place.name)).items) == 1


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
