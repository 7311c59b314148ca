from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from prefect.utilities.schema_tools.validation import validate
from prefect_aws import AwsCredentials

from infra.workers.base.job_configuration import JobRefused
from infra.workers.batch.region import RegionCalls
from infra.workers.batch.worker import AwsBatchJobConfiguration, AwsBatchWorker
from tests.emulators.aws.control import control
from tests.emulators.aws.server import aws_server
from tests.emulators.fixtures import REGION, environment

OWN, OTHER = "123456789012", "222222222222"
ROLE = f"arn:aws:iam::{OTHER}:role/lanes"
ENOUGH = {"image": "i", "job_queue": "q"}


@pytest.fixture(scope="module")
def address():
    with aws_server() as url:
        yield url


@pytest.fixture(autouse=True)
def account(address):
    names = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    with environment(**names, AWS_DEFAULT_REGION=REGION):
        yield
    control.reset()


@pytest.fixture
def role():
    return AwsCredentials(assume_role_arn=ROLE, region_name=REGION)


async def account_of(calls):
    return (await calls.call("sts", "get_caller_identity"))["Account"]


async def test_calls_are_made_in_the_account_of_the_credentials(role):
    assert await account_of(RegionCalls(REGION)) == OWN
    assert await account_of(RegionCalls(REGION, role)) == OTHER
    lent = RegionCalls(REGION, role)._client("batch")._request_signer._credentials
    keys = AwsCredentials(
        aws_access_key_id=lent.access_key,
        aws_secret_access_key=lent.secret_key,
        aws_session_token=lent.token,
        region_name=REGION,
    )
    assert await account_of(RegionCalls(None, keys)) == OTHER
    assert RegionCalls(None, keys).name == REGION


async def test_the_blocks_own_options_of_a_client_count(role, monkeypatch, address):
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    options = {"endpoint_url": address, "config": {"user_agent_extra": "theirs", "connect_timeout": 1}}
    client = RegionCalls(
        REGION,
        AwsCredentials(aws_access_key_id="a", aws_secret_access_key="b", aws_client_parameters=options),
    )._client("batch")
    assert client.meta.endpoint_url == address and client.meta.config.user_agent_extra == "theirs"
    assert client.meta.config.retries["total_max_attempts"] == 1


async def test_a_role_is_assumed_anew_when_its_hour_is_over(role):
    calls = RegionCalls(REGION, role)
    for _ in range(3):
        await calls.call("batch", "describe_job_queues")
    assert control.calls["AssumeRole"] == 1
    control.throttle("DescribeJobQueues", answer="expired", limit=1)
    assert (await calls.call("batch", "describe_job_queues"))["jobQueues"] == []
    assert control.calls["AssumeRole"] == 2


async def test_credentials_that_stay_expired_are_reported_after_one_more_try(role):
    fault = control.throttle("DescribeJobQueues", answer="expired")
    with pytest.raises(JobRefused, match="AWS does not accept the worker's credentials") as refusal:
        await RegionCalls(REGION, role).retry("batch", "describe_job_queues", 60)
    assert "ExpiredTokenException" in str(refusal.value) and fault.hits == 2


async def test_the_workers_own_credentials_renew_themselves():
    fault = control.throttle("DescribeJobQueues", answer="expired")
    with pytest.raises(ClientError):
        await RegionCalls(REGION).call("batch", "describe_job_queues")
    assert fault.hits == 1


async def test_a_block_is_named_by_the_form_and_its_keys_are_never_shown():
    template = AwsBatchWorker.get_default_base_job_template()
    assert template["variables"]["properties"]["aws_credentials"]["title"] == "AWS Credentials"
    keys = {"aws_access_key_id": "AKIA1", "aws_secret_access_key": "hush", "aws_session_token": "hush"}
    two = [
        await AwsBatchJobConfiguration.from_template_and_values(
            template, ENOUGH | {"aws_credentials": keys}, client=object()
        )
        for _ in range(2)
    ]
    assert two[0].aws_credentials == two[1].aws_credentials
    assert len({one.aws_credentials for one in two}) == 1  # both have the clients of one account
    with pytest.raises(JobRefused) as refusal:
        wrong = ENOUGH | {"aws_credentials": {"aws_secret_access_key": ["hush"]}}
        await AwsBatchJobConfiguration.from_template_and_values(template, wrong, client=object())
    assert str(refusal.value).startswith("aws_credentials") and "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    "value", [{"$ref": {"block_document_id": str(uuid4())}}, {"region_name": "us-east-1"}, None]
)
def test_the_server_takes_a_block_by_reference_and_by_its_fields(value):
    form = AwsBatchWorker.get_default_base_job_template()["variables"]
    validate({"aws_credentials": value}, form, raise_on_error=True, preprocess=True)
