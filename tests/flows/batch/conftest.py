import asyncio
from pathlib import Path

import pytest

from gridbench.run.session import deploy
from tests.emulators.lane import LOG_GROUP, auth_secret, make_pool, with_workload, worker
from tests.flows.batch.lanes import CLOUDS, save

HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def image(bench_image):
    return with_workload(bench_image, HERE / "workloads" / "nap.py")


@pytest.fixture
async def cloud(bench, image, aws, batch_queue, tmp_path):
    """An account with a queue for each machine, the work pool, the lane's deployment, a bucket, a worker."""
    for name, (instance, purchase) in CLOUDS.items():
        batch_queue(instance, spot=purchase == "spot", name=name)
    aws.client("logs").create_log_group(logGroupName=LOG_GROUP)
    aws.client("s3").create_bucket(Bucket="kept")
    async with bench.client() as client:
        await make_pool(client, auth_arn=auth_secret(aws, bench.stack.state))
    await save(bench, aws, image)
    await asyncio.to_thread(deploy, False, bench.stack.environment, "aws-batch")
    with worker(bench.stack.environment, tmp_path / "worker.log"):
        yield aws
