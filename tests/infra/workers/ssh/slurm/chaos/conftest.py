"""A pool of the ssh worker whose box is the login node of a real Slurm cluster."""

import pytest

from infra.workers.ssh.worker import SshWorker
from tests.emulators.slurm.cluster import cluster as running_cluster
from tests.emulators.slurm.python import with_torch
from tests.infra.workers.worker_prefect import POLL_S, Pool


@pytest.fixture(scope="package")
def slurm():
    with running_cluster(2, with_accounting=True) as made:
        yield made


@pytest.fixture
def machines(slurm):
    """The cluster with nothing on it, before and after."""
    slurm.mend()
    yield slurm
    left = slurm.jobs()
    slurm.mend()
    assert left == []


@pytest.fixture
async def pool(monkeypatch, prefect, machines):
    monkeypatch.setenv("SSH_WORKER_POLL_S", POLL_S)
    monkeypatch.setenv("SSH_WORKER_FLUSH_S", "0.3")
    with prefect.settings():
        yield await on(prefect, machines)


async def on(prefect, cluster, **variables):
    """A pool for lanes on a cluster, whose scripts need no node of their own."""
    asked = {
        "hosts": [cluster.host],
        "container_command": "none",
        "scheduler": "slurm",
        "slurm": {"exclusive": False, "cpus": 1},
        "memory_mib": 200,
        "python": str(with_torch(cluster.folder)),
        "least_free_mib": 1,
        "wait_s": 120,
        "timeout_s": 240,
    }
    return await Pool.make(prefect, SshWorker, **asked | variables)
