import pytest

from tests.emulators.kube.job_examples import connected
from tests.emulators.kube.nodes.runner import Processes
from tests.emulators.kube.server import kube


@pytest.fixture
def cluster():
    with kube(Processes(known=("bench/*",))) as made:
        yield made


@pytest.fixture
async def kubernetes(cluster):
    async with connected(cluster) as made:
        yield made
