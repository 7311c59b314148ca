"""A private namespace on a real or emulated cluster, with a pool."""

import asyncio
import os
import time
import uuid
from pathlib import Path

import pytest
import yaml
from kubernetes_asyncio import client, config, utils

from infra.workers.kubernetes.worker import KubernetesJobsWorker
from tests.emulators.kube.nodes.podman import Containers
from tests.emulators.kube.server import kube
from tests.infra.workers.kubernetes.scenarios.running_jobs import WITHIN_S
from tests.infra.workers.worker_prefect import Pool

REAL = os.environ.get("CLUSTER_KUBECONFIG")


IMAGE = os.environ.get("CLUSTER_IMAGE", "docker.io/library/python:3.11-slim")


ROLE = Path(__file__).parents[5] / "infra/gke/role.yaml"


@pytest.fixture(scope="module")
def admin(request, tmp_path_factory):
    if REAL:
        yield Path(REAL)
        return
    base_image = request.getfixturevalue("base_image")
    with kube(Containers(), namespaces=()) as cluster:
        cluster.control.images[IMAGE] = base_image
        yield cluster.kubeconfig(tmp_path_factory.mktemp("kube") / "admin")


class Place:
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


@pytest.fixture
def fast(monkeypatch):
    # Jobs here run no flow: that a cluster elsewhere cannot reach a Prefect server on loopback does not matter.
    monkeypatch.setenv("GRIDBENCH_LOOPBACK_API", "true")
    for name, value in {"POLL_S": "0.5", "PULL_S": "5", "EXPLAIN_S": "1"}.items():
        monkeypatch.setenv(f"KUBERNETES_JOBS_WORKER_{name}", value)


@pytest.fixture
async def pool(fast, prefect, place):
    with prefect.settings():
        yield await Pool.make(
            prefect, KubernetesJobsWorker, namespace=place.name, image=IMAGE, memory_mib=128, vcpus=0.1
        )
