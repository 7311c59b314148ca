from contextlib import suppress

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from infra.aws import delivery
from infra.aws.account import Account
from infra.aws.leftovers import buckets as results_buckets
from infra.aws.template import body
from tests.infra.aws.template_text import MACHINES, MANY

NUMBER = "123456789012"


@pytest.fixture(params=["us-east-1", "eu-central-1"])
def account(request):
    keys = {"region_name": request.param, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    with mock_aws():
        yield Account(lambda service: boto3.client(service, **keys), request.param, NUMBER)


def names(account):
    return [row["Name"] for row in account.client("s3").list_buckets()["Buckets"]]


def test_a_small_template_travels_with_the_request(account):
    with delivery.delivered(account, "gridbench", body("gridbench", MACHINES)) as template:
        assert template == {"TemplateBody": body("gridbench", MACHINES)}
        assert names(account) == []


def test_a_large_template_travels_through_a_bucket_of_its_own(account):
    text = body("gridbench", MANY)
    with delivery.delivered(account, "gridbench", text) as template:
        (bucket,) = names(account)
        assert template == {
            "TemplateURL": f"https://{bucket}.s3.{account.region}.amazonaws.com/template.json"
        }
        s3 = account.client("s3")
        assert s3.get_object(Bucket=bucket, Key="template.json")["Body"].read().decode() == text
        assert list(results_buckets(account, "gridbench")) == []  # never taken for one with results
        assert list(delivery.find_buckets(account, "gridbench")) == [bucket] and len(bucket) <= 63
        assert list(delivery.find_buckets(account, "grid")) == []
    assert names(account) == []


def test_the_bucket_goes_however_it_ends(account):
    with suppress(KeyboardInterrupt), delivery.delivered(account, "gridbench", "x" * 51_201):
        raise KeyboardInterrupt
    assert names(account) == []


def test_why_a_bucket_could_not_be_made_is_reported():
    s3 = boto3.client("s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    account = Account(lambda service: s3, "us-east-1", NUMBER)
    with Stubber(s3) as stubber:
        stubber.add_client_error("create_bucket", "AccessDenied", "not authorized to perform s3:CreateBucket")
        stubber.add_client_error("delete_object", "NoSuchBucket")
        with (
            pytest.raises(ClientError, match="s3:CreateBucket"),
            delivery.delivered(account, "gridbench", "x" * 51_201),
        ):
            pass


def test_the_address_is_one_of_the_partition():
    china = delivery.address("cn-north-1", "b", "aws-cn")
    assert china == "https://b.s3.cn-north-1.amazonaws.com.cn/template.json"
