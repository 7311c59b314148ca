import sys

import pytest

from infra.workers.ssh.box import SshBox
from infra.workers.ssh.configuration import Host
from infra.workers.ssh.connection import connect
from infra.workers.ssh.worker import SshWorker
from tests.emulators.boxes import boxes, has_all_packages
from tests.emulators.slurm.cluster import cluster
from tests.infra.workers.ssh.box_jobs import LOCK, asked, nothing
from tests.infra.workers.worker_prefect import POLL_S, Pool


@pytest.fixture(scope="module")
def two():
    with boxes(2) as made:
        yield made


@pytest.fixture(scope="package")
def slurm():
    with cluster(2, with_accounting=True) as made:
        yield made


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setenv("SSH_WORKER_POLL_S", POLL_S)
    monkeypatch.setenv("SSH_WORKER_FLUSH_S", "0.3")


CONTAINERS, PROCESSES = "containers", "processes"


@pytest.fixture(params=[CONTAINERS, PROCESSES])
def kind(request):
    """Containers or processes; endings have the same name and message in both."""
    return request.param


@pytest.fixture
def variables(kind, two, base_image):
    """Job variables of containers or processes."""
    if kind == CONTAINERS:
        return {"image": base_image}
    for each in two:
        has_all_packages(each)
    return {"container_command": "none", "python": sys.executable}


@pytest.fixture
async def pool(fast, prefect, two, variables):
    with prefect.settings():
        yield await Pool.make(
            prefect, SshWorker, hosts=[two[0].host], **variables, least_free_mib=1, wait_s=120
        )


@pytest.fixture
def machine(two):
    """A box with nothing on it, before and after, and a working runtime at the end."""
    docker = two[0].folder / "bin/docker"
    before = docker.read_text()
    assert two[0].jobs() == []
    yield two[0]
    docker.write_text(before)
    left = two[0].jobs()
    two[0].run("kill -9 $(grep -ls GRIDBENCH_TREE= /proc/[0-9]*/environ | cut -d/ -f3)", check=False)
    two[0].run("docker rm -f -a -t 0", check=False)  # a failing test must not affect others
    two[0].run(f"flock -w 60 {LOCK} true", check=False)  # what watched the container ends a moment later
    assert left == []


@pytest.fixture
async def box(machine, variables):
    async with await connect(Host(**machine.host), nothing) as connection:
        yield SshBox.of(connection, asked(machine, variables, "true"))
