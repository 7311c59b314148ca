from dataclasses import dataclass
from typing import Any

import pytest
from prefect_aws import AwsCredentials

from tests.emulators.fixtures import Aws, make_queue

OTHER = "222222222222"

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


@dataclass
class Other(Aws):
    keys: dict[str, str] | None = None

    def client(self, service: str, **options: Any) -> Any:
        return super().client(service, **(self.keys or {}), **options)


@pytest.fixture
def other(aws):
    role = f"arn:aws:iam::{OTHER}:role/lanes"
    lent = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="lanes")["Credentials"]
    keys = {
        "aws_access_key_id": lent["AccessKeyId"],
        "aws_secret_access_key": lent["SecretAccessKey"],
        "aws_session_token": lent["SessionToken"],
    }
    return Other(aws.url, aws.control, aws.environment, keys=keys)


def jobs_of(account, queue):
    found = account.client("batch").list_jobs(jobQueue=queue, jobStatus="SUCCEEDED")["jobSummaryList"]
    return [job["jobId"] for job in found]


async def test_one_worker_serves_two_accounts(pool, aws, other, batch_queue, prefect):
    queues = {"ours": batch_queue("c5.2xlarge"), "theirs": make_queue(other, "c5.2xlarge", name="lanes")}
    async with prefect.client() as client:
        block = AwsCredentials(**other.keys, region_name="us-east-1")
        await block.save("the-other-account", overwrite=True, client=client)
    reference = {"aws_credentials": {"$ref": {"block_document_id": str(block._block_document_id)}}}
    variables = {"ours": {}, "theirs": reference}
    runs = {
        name: await pool.start(name, script=f"echo {name}", job_queue=queues[name], **variables[name])
        for name in queues
    }
    async with pool.worker() as worker:
        ends = {name: await pool.end(run_id) for name, run_id in runs.items()}
        lines = {name: await pool.lines_when(run_id, bool) for name, run_id in runs.items()}
        assert len(worker._regions) == 2
    assert {name: end.name for name, end in ends.items()} == dict.fromkeys(queues, "Completed")
    assert lines == {"ours": ["ours"], "theirs": ["theirs"]}
    ids = {name: (await pool.run(run_id)).infrastructure_pid for name, run_id in runs.items()}
    assert jobs_of(aws, queues["ours"]) == [ids["ours"]]
    assert jobs_of(other, queues["theirs"]) == [ids["theirs"]]
    sent = str(aws.control.batch_calls)
    assert not any(secret in sent for secret in other.keys.values())
