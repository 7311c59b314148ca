import pytest

from tests.infra.workers.worker_prefect import POLL_S, Pool


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setenv("AWS_BATCH_WORKER_POLL_S", POLL_S)
    monkeypatch.setenv("AWS_BATCH_WORKER_LOG_CALLS_PER_S", "20")


@pytest.fixture
async def pool(fast, prefect, aws, batch_queue, base_image):
    with prefect.settings():
        yield await Pool.make(
            prefect, job_queue=batch_queue("g5.xlarge"), image=base_image, memory_mib=128, region="us-east-1"
        )
