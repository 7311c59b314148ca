import pytest

from infra.workers.ssh.worker import SshWorker
from tests.infra.workers.ssh.ends.lanes import SLURM, BoxLanes, SlurmLanes
from tests.infra.workers.worker_prefect import Pool


@pytest.fixture
def lanes(kind, request):
    if kind == SLURM:
        made = SlurmLanes(request.getfixturevalue("slurm"))
    else:
        made = BoxLanes(kind, request.getfixturevalue("two")[0], request.getfixturevalue("base_image"))
    made.mend()
    yield made
    left = made.jobs()
    made.mend()
    assert left == []


@pytest.fixture
async def pool(fast, prefect, lanes):
    with prefect.settings():
        yield await Pool.make(prefect, SshWorker, **lanes.variables)
