import pytest

from infra.workers.ssh.worker import SshWorker
from tests.emulators.slurm.python import with_torch
from tests.infra.workers.worker_prefect import Pool


@pytest.fixture
def machines(slurm):
    slurm.mend()
    yield slurm
    left = slurm.jobs()
    slurm.mend()
    assert left == []


@pytest.fixture
async def pool(fast, prefect, machines):
    with prefect.settings():
        yield await on(prefect, machines)


async def on(prefect, cluster, **variables):
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
