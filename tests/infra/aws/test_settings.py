import shlex

import boto3
import pytest
from botocore import exceptions as boto
from botocore.stub import Stubber
from moto import mock_aws

from infra.aws import account, machines, pool, quotas, settings
from infra.aws.errors import CREDENTIALS, AwsError, in_words, sentence
from infra.aws.settings import StackOptions

REGION = "us-east-1"


@pytest.fixture
def ec2():
    with mock_aws():
        yield boto3.client("ec2", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (
            StackOptions("Gridbench"),
            "project 'Gridbench' must be 2 to 21 small letters, .*such as 'gridbench'",
        ),
        (StackOptions("g"), "project 'g' must be"),
        (StackOptions("1grid"), "begin with a letter"),
        (StackOptions("grid_bench"), "project 'grid_bench' must be"),
        (StackOptions("g" * 22), "2 to 21"),
        (StackOptions("bench-"), "not end with a dash"),
        (StackOptions("grid", ()), "--instances is empty"),
        (
            StackOptions("grid", tuple(f"m5.{n}xlarge" for n in range(26))),
            "--instances has 26 types: .* 25 in a region",
        ),
        (StackOptions("grid", ("g5",)), "instance type 'g5' must be a family and a size"),
        (StackOptions("grid", ("G5.xlarge",)), "instance type 'G5.xlarge' must be"),
        (StackOptions("grid", ("g5.xlarge", "g5.xlarge")), "g5.xlarge is named twice"),
        (
            StackOptions("grid", ("p3.2xlarge",)),
            "p3.2xlarge: AWS Batch has no machine image .* does not support p3",
        ),
        (StackOptions("grid", ("p2.xlarge",)), "p2.xlarge: AWS has retired it"),
        (StackOptions("grid", ("g3.4xlarge",)), "does not support g3"),
        (StackOptions("grid", max_gpu_vcpus=0), "--max-gpu-vcpus is 0: at least 1"),
        (StackOptions("grid", max_cpu_vcpus=-4), "--max-cpu-vcpus is -4"),
        (StackOptions("grid", prefect_port=70000), "--prefect-port is 70000: ports are 1 to 65535"),
        (StackOptions("grid", email="me"), "--email 'me' must be an address"),
        (StackOptions("grid", email="me@home"), "--email 'me@home' must be an address"),
        (StackOptions("grid", budget_usd=0), "--budget-usd is 0"),
        (StackOptions("grid", log_days=31), "--log-days is 31: AWS keeps logs for one of 1, 3, 5"),
    ],
)
def test_a_wrong_value_is_one_sentence(wishes, words):
    with pytest.raises(AwsError, match=words) as refused:
        settings.check(wishes, REGION)
    assert "\n" not in str(refused.value)


def test_a_key_in_the_place_of_its_arn_is_not_repeated():
    with pytest.raises(AwsError, match="--secret must be the ARN of a secret") as refused:
        settings.check(StackOptions("grid", secret_arn="pnu_0123456789"), REGION)
    assert "pnu_" not in str(refused.value)


def test_a_secret_of_another_region_is_refused():
    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prefect-AbCdEf"
    with pytest.raises(AwsError, match="--auth-secret is in eu-west-1, the stack in us-east-1"):
        settings.check(StackOptions("grid", auth_secret_arn=arn), REGION)
    settings.check(StackOptions("grid", auth_secret_arn=arn), "eu-west-1")


def test_shapes_come_from_ec2(ec2):
    a10, cpu, eight = machines.look_up(ec2, ["g5.8xlarge", "c5.2xlarge", "p4d.24xlarge"])
    assert (a10.vcpus, a10.memory_mib, a10.gpus) == (32, 131072, 1)
    assert (cpu.vcpus, cpu.gpus) == (8, 0)
    assert eight.gpus == 8


@pytest.mark.parametrize("names", [["c5.2xlage"], ["g5.xlarge", "c5.2xlage"]])
def test_an_unknown_type_is_named(ec2, names):
    with pytest.raises(AwsError, match=r"instance type 'c5.2xlage' is unknown in us-east-1"):
        machines.look_up(ec2, names)


def test_an_arm_type_is_refused(ec2):
    with pytest.raises(AwsError, match=r"g5g.xlarge is Arm and the images are for x86_64"):
        machines.look_up(ec2, ["g5g.xlarge"])


def test_a_job_leaves_memory_for_the_machine(ec2):
    for machine in machines.look_up(ec2, list(settings.INSTANCES)):
        wanted = machine.job_variables["memory_mib"]
        assert 0.85 * machine.memory_mib < wanted <= 0.9 * machine.memory_mib


def test_a_cap_below_one_machine_is_refused(ec2):
    found = machines.look_up(ec2, ["g5.12xlarge", "g5.xlarge"])
    wishes = StackOptions("grid")
    with pytest.raises(AwsError, match=r"--max-gpu-vcpus is 32, but one g5.12xlarge has 48 vCPUs"):
        settings.parameters(wishes, found, ("a", "b"), {})
    enough = settings.parameters(StackOptions("grid", max_gpu_vcpus=48), found, ("a", "b"), {})
    assert enough["MaxGpuVcpus"] == "48"


def test_unset_options_keep_the_parameters_of_the_stack(ec2):
    found = machines.look_up(ec2, ["g5.xlarge"])
    first = settings.parameters(
        StackOptions("grid", email="a@b.cd", budget_usd=7), found, ("a", "b"), {}, "old-bucket"
    )
    again = settings.parameters(StackOptions("grid", max_gpu_vcpus=64), found, ("a", "b"), first)
    assert again == first | {"MaxGpuVcpus": "64"}


class Offers:
    class meta:
        region_name = REGION

    def __init__(self, **zones):
        self.zones = zones

    def get_paginator(self, operation):
        assert operation == "describe_instance_type_offerings"
        return self

    def paginate(self, LocationType, Filters):
        wanted = Filters[0]["Values"]
        rows = [(zone, name) for zone, names in self.zones.items() for name in names if name in wanted]
        return [{"InstanceTypeOfferings": [{"Location": zone, "InstanceType": name}]} for zone, name in rows]


def types(*names):
    return [machines.MachineType(name, 4, 16384, 1) for name in names]


def test_the_zones_with_most_types_are_taken():
    offers = Offers(a=["g5.xlarge"], b=["g5.xlarge", "g6.xlarge"], c=["g6.xlarge", "p5.4xlarge"], d=[])
    pair, notes = machines.choose_zones(offers, types("g5.xlarge", "g6.xlarge", "p5.4xlarge"))
    assert pair == ("b", "c") and notes == []


def test_a_type_that_no_chosen_zone_has_is_reported():
    offers = Offers(a=["g5.xlarge", "g6.xlarge"], b=["g5.xlarge", "g6.xlarge"], c=["p5.4xlarge"])
    pair, notes = machines.choose_zones(offers, types("g5.xlarge", "g6.xlarge"))
    assert pair == ("a", "b") and notes == []
    three = Offers(a=["g5.xlarge"], b=["g6.xlarge"], c=["p5.4xlarge"])
    assert machines.choose_zones(three, types("g5.xlarge", "g6.xlarge", "p5.4xlarge"))[1] == [
        "p5.4xlarge is in neither a nor b"
    ]


def test_a_type_that_the_region_lacks_is_refused():
    with pytest.raises(AwsError, match=r"p5.4xlarge is in no zone of us-east-1"):
        machines.choose_zones(Offers(a=["g5.xlarge"], b=["g5.xlarge"]), types("g5.xlarge", "p5.4xlarge"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("us-est-1", "did you mean us-west-1"),
        ("moon", "such as us-east-1"),
        ("us-east-1a", "did you mean us-east-1"),
    ],
)
def test_an_unknown_region_is_refused(name, words):
    with pytest.raises(AwsError, match=f"region '{name}' has no AWS Batch; {words}"):
        account.region_of(name)


def test_no_region_is_refused(monkeypatch, tmp_path):
    for variable in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(AwsError, match="no region: name one with --region"):
        account.region_of()


def denied(code, message="You shall not"):
    return boto.ClientError({"Error": {"Code": code, "Message": message}}, "CreateChangeSet")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (boto.NoCredentialsError(), CREDENTIALS),
        (boto.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"), CREDENTIALS),
        (boto.ProfileNotFound(profile="work"), "AWS_PROFILE names it"),
        (boto.EndpointConnectionError(endpoint_url="https://x"), "AWS does not answer"),
        (boto.ConnectTimeoutError(endpoint_url="https://x"), "check the network and the region"),
        (denied("AccessDenied"), "AWS refuses CreateChangeSet: You shall not; docs/aws.md lists the rights"),
        (denied("UnauthorizedOperation", ""), "AWS refuses CreateChangeSet: UnauthorizedOperation"),
        (denied("ExpiredToken"), "the AWS credentials have expired"),
        (denied("InvalidClientTokenId"), "AWS does not know these credentials"),
        (denied("OptInRequired"), "has not enabled the region"),
        (denied("LimitExceededException", "Too\n many."), "LimitExceededException: Too many"),
    ],
)
def test_an_error_of_aws_is_one_sentence(error, words):
    assert words in sentence(error) and "\n" not in sentence(error)
    with pytest.raises(AwsError), in_words():
        raise error


def quota(client, code, value):
    answer = {"Quota": {"QuotaCode": code, "Value": value}} if value is not None else None
    asked = {"ServiceCode": "ec2", "QuotaCode": code}
    if answer:
        client.add_response("get_service_quota", answer, asked)
    else:
        client.add_client_error("get_service_quota", "AccessDeniedException", expected_params=asked)


def test_a_quota_below_one_machine_is_reported():
    keys = {"region_name": REGION, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    client = boto3.client("service-quotas", **keys)
    rented = [
        machines.MachineType("g5.8xlarge", 32, 131072, 1),
        *types("g5.xlarge", "c5.xlarge", "p5.4xlarge", "p4d.24xlarge"),
        *types("inf2.xlarge", "trn1.2xlarge", "dl1.24xlarge"),  # they have separate quotas
    ]
    with Stubber(client) as stubber:
        quota(stubber, "L-DB2E81BA", 0.0)
        quota(stubber, "L-3819A6DF", 32.0)
        quota(stubber, "L-417A185B", 8.0)
        quota(stubber, "L-7212CCBC", None)  # not allowed to ask: no message
        quota(stubber, "L-C4BD4855", 2.0)
        quota(stubber, "L-1216C47A", 5.0)
        quota(stubber, "L-34B43A08", 3.0)
        told = quotas.shortages(client, rented)
        stubber.assert_no_pending_responses()
    assert told == [
        "this account is allowed 0 vCPUs of G and VT on demand here, and one g5.8xlarge has 32: "
        "until quota L-DB2E81BA is raised its jobs wait (docs/aws.md)",
        "this account is allowed 2 vCPUs of P5 spot here, and one p5.4xlarge has 4: "
        "until quota L-C4BD4855 is raised its jobs wait (docs/aws.md)",
        "this account is allowed 3 vCPUs of Standard spot here, and one c5.xlarge has 4: "
        "until quota L-34B43A08 is raised its jobs wait (docs/aws.md)",
    ]


@pytest.mark.parametrize(
    ("instance", "spot", "code", "sentence"),
    [
        (
            "g6.xlarge",
            False,
            "L-DB2E81BA",
            "is allowed 0 vCPUs of G and VT on demand, and one g6.xlarge has 4",
        ),
        ("g6.xlarge", True, "L-3819A6DF", "is allowed 0 vCPUs of G and VT spot, and one g6.xlarge has 4"),
    ],
)
def test_a_machine_that_never_comes_is_told_by_its_way_of_buying(instance, spot, code, sentence):
    keys = {"region_name": REGION, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    client = boto3.client("service-quotas", **keys)
    with Stubber(client) as stubber:
        quota(stubber, code, 0.0)
        assert sentence in quotas.shortage(client, instance, 4, spot)
        quota(stubber, code, 4.0)
        assert quotas.shortage(client, instance, 4, spot) is None
        stubber.assert_no_pending_responses()


ACCOUNT = account.Account(lambda service: None, REGION, "123456789012")


@pytest.mark.parametrize(("creates", "kind"), [(True, "CREATE"), (False, "UPDATE")])
def test_the_commands_by_hand_are_ones_that_a_shell_takes_apart_again(tmp_path, creates, kind):
    given = {"Project": "grid", "Purpose": "nights,days", "BudgetEmail": ""}
    file = tmp_path / "a template.json"
    file.write_text("{}")
    words = [shlex.split(line) for line in pool.up_lines(ACCOUNT, given, creates, file)]
    assert all(line[0] == "aws" and REGION in line for line in words)
    assert words[0][words[0].index("--change-set-type") + 1] == kind
    assert words[0][words[0].index("--template-body") + 1] == f"file://{file}"
    assert words[0][-3:] == [
        "ParameterKey=Project,ParameterValue=grid",
        "ParameterKey=Purpose,ParameterValue=nights\\,days",
        "ParameterKey=BudgetEmail,ParameterValue=",
    ]


def test_by_hand_a_large_template_goes_through_a_bucket(tmp_path):
    file = tmp_path / "template.json"
    file.write_text("x" * 51_201)
    lines = pool.up_lines(ACCOUNT, {"Project": "grid"}, True, file)
    bucket = "gridbench-template-grid-123456789012-by-hand"
    assert lines[0] == f"aws s3 mb s3://{bucket} --region us-east-1"
    assert lines[1] == f"aws s3 cp {file} s3://{bucket}/template.json --region us-east-1"
    assert f"--template-url https://{bucket}.s3.us-east-1.amazonaws.com/template.json" in lines[2]
    assert lines[4] == f"aws s3 rb s3://{bucket} --force --region us-east-1"
