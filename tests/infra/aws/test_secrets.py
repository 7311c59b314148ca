from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from gridbench.setup import aws as setup
from infra.aws.account import Account
from infra.aws.errors import AwsError
from infra.aws.leftovers import LOOKS
from infra.aws.secrets import API_KEY, AUTH_STRING, find_secrets, keep_secret
from infra.aws.settings import StackOptions
from infra.aws.sweep import REMOVALS

KEYS = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}


@pytest.fixture
def account(monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        clients = {name: boto3.client(name, **KEYS) for name in ("secretsmanager", "cloudformation")}
        yield Account(clients.__getitem__, "us-east-1", "123456789012")


def value(account, name):
    return account.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"]


def test_a_secret_is_made_once_and_follows_the_login(account):
    arn, made = keep_secret(account, "gridbench", API_KEY, "pnu_first")
    assert made and ":secret:gridbench-prefect-api-key-" in arn
    assert keep_secret(account, "gridbench", API_KEY, "pnu_first") == (arn, False)
    assert keep_secret(account, "gridbench", API_KEY, "pnu_second") == (arn, False)
    assert value(account, "gridbench-prefect-api-key") == "pnu_second"


def test_a_foreign_secret_is_refused_and_not_shown(account):
    account.client("secretsmanager").create_secret(Name="gridbench-prefect-api-key", SecretString="theirs")
    with pytest.raises(AwsError, match="that Gridbench did not make") as refused:
        keep_secret(account, "gridbench", API_KEY, "pnu_mine")
    assert "pnu_mine" not in str(refused.value) and value(account, "gridbench-prefect-api-key") == "theirs"


def test_down_finds_those_of_the_project_and_deletes_them_at_once(account):
    for project in ("gridbench", "gridbench-two"):
        keep_secret(account, project, AUTH_STRING, "me:secret")
    account.client("secretsmanager").create_secret(Name="gridbench-of-yours", SecretString="x")
    assert list(LOOKS["secrets"](account, "gridbench")) == ["gridbench-prefect-auth-string"]
    REMOVALS["secrets"](account, "gridbench-prefect-auth-string")
    assert list(find_secrets(account, "gridbench")) == []
    assert keep_secret(account, "gridbench", AUTH_STRING, "me:new")[1], "its name is free again"


def test_secrets_of_a_stack_that_was_not_made_are_taken_back(account):
    options = StackOptions("gridbench")
    with (
        pytest.raises(KeyboardInterrupt),
        setup._with_secrets(account, {API_KEY: "pnu_key"}, options) as complete,
    ):
        assert (
            ":secret:gridbench-prefect-api-key-" in complete.secret_arn and complete.auth_secret_arn is None
        )
        raise KeyboardInterrupt
    assert list(find_secrets(account, "gridbench")) == []


@pytest.mark.parametrize(
    ("status", "has_it", "kept"),
    [
        ("REVIEW_IN_PROGRESS", False, False),  # only looked at: the question was answered with no
        ("DELETE_IN_PROGRESS", False, False),  # deletion has begun, and takes a moment
        ("UPDATE_COMPLETE", False, False),  # it was there before, and a change of it was declined
        ("CREATE_IN_PROGRESS", True, True),
        ("UPDATE_IN_PROGRESS", False, True),
        ("ROLLBACK_COMPLETE", True, True),  # `down` deletes it with the stack
    ],
)
def test_a_secret_goes_again_unless_the_stack_takes_it(account, status, has_it, kept):
    options, cfn = StackOptions("gridbench"), account.client("cloudformation")
    with (
        Stubber(cfn) as answers,
        pytest.raises(KeyboardInterrupt),
        setup._with_secrets(account, {API_KEY: "pnu_key"}, options) as complete,
    ):
        arn = complete.secret_arn if has_it else ""
        parameters = [{"ParameterKey": "PrefectApiKeySecretArn", "ParameterValue": arn}]
        row = {"StackName": "gridbench", "StackId": "1", "CreationTime": datetime.now(UTC)}
        row |= {"StackStatus": status, "Parameters": parameters}
        answers.add_response("describe_stacks", {"Stacks": [row]}, {"StackName": "gridbench"})
        raise KeyboardInterrupt
    assert bool(list(find_secrets(account, "gridbench"))) == kept


def test_a_secret_that_waits_for_its_deletion_is_taken_back(account):
    keep_secret(account, "gridbench", API_KEY, "pnu_first")
    account.client("secretsmanager").delete_secret(SecretId="gridbench-prefect-api-key")
    assert keep_secret(account, "gridbench", API_KEY, "pnu_second")[1], "it costs again"
    assert value(account, "gridbench-prefect-api-key") == "pnu_second"
