from pathlib import Path

import pytest

from infra.workers.kubernetes.worker import KubernetesJobsWorker
from tests.emulators.kube.server import kube
from tests.infra.workers.kubernetes.worker_checks import NAMESPACE
from tests.infra.workers.worker_prefect import Pool

ROLE = Path(__file__).parents[4] / "infra/gke/role.yaml"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster in which the worker has only the rights of its Role."""
    with kube(namespaces=()) as cluster:
        cluster.apply(ROLE)
        token = cluster.token(NAMESPACE, "gridbench-worker")
        config = cluster.kubeconfig(tmp_path / "kubeconfig", token, NAMESPACE)
        monkeypatch.setattr("kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(config))
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield cluster
        refused = [(r.method, r.path, r.status) for r in cluster.control.requests if r.status == 403]
        assert not refused, "the Role is enough"


@pytest.fixture
def fast(monkeypatch):
    for name, value in {"POLL_S": "0.5", "PULL_S": "2", "EXPLAIN_S": "1", "PATIENCE_S": "60"}.items():
        monkeypatch.setenv(f"KUBERNETES_JOBS_WORKER_{name}", value)


@pytest.fixture
async def pool(fast, prefect, cluster):
    with prefect.settings():
        yield await Pool.make(
            prefect, KubernetesJobsWorker, namespace=NAMESPACE, image="ours:1", memory_mib=128, vcpus=0.1
        )
