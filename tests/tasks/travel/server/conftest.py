import pytest

from tests.infra.workers.worker_prefect import Prefect


@pytest.fixture(scope="module")
def prefect(tmp_path_factory):
    server = Prefect(tmp_path_factory.mktemp("prefect"))
    server.start()
    yield server
    server.stop()
