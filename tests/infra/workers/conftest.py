"""One Prefect server for the tests of all workers; each test makes its own pool."""

import pytest

from tests.infra.workers.worker_prefect import Prefect


@pytest.fixture(scope="session")
def prefect(tmp_path_factory):
    server = Prefect(tmp_path_factory.mktemp("prefect"))
    server.start()
    yield server
    server.stop()
