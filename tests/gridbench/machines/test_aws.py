import json
import sys
from datetime import UTC, datetime, timedelta

import boto3
import pytest
import typer
from botocore.stub import Stubber

from gridbench import main
from gridbench.machines import aws as commands
from gridbench.machines import aws_text
from infra.aws import account as accounts
from infra.aws.machines import MachineType
from infra.aws.state import Queue, RunningInstance
from tasks.pricing.facts import Fact

SERVICES = ("cloudformation", "ec2", "s3", "batch", "iam", "logs", "ecr", "budgets")


@pytest.fixture
def app(monkeypatch):
    program = typer.Typer(pretty_exceptions_enable=False)
    for name, command in (
        ("up", commands.up_aws),
        ("status", commands.status_aws),
        ("down", commands.down_aws),
    ):
        group = typer.Typer()
        group.callback()(lambda: None)
        group.command("aws")(command)
        program.add_typer(group, name=name)
    monkeypatch.setattr(main, "app", program)


@pytest.fixture
def run(app, capsys, monkeypatch):
    """Run a command; return exit code and output on one line."""

    def go(*words):
        monkeypatch.setattr(sys, "argv", ["gridbench", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, " ".join("".join(capsys.readouterr()).split())

    return go


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No credentials, no profile, no way to AWS."""
    for name in (
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def answers(monkeypatch):
    """An account with scripted answers."""
    keys = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    clients = {name: boto3.client(name, **keys) for name in SERVICES}
    stubbers = {name: Stubber(client) for name, client in clients.items()}
    for stubber in stubbers.values():
        stubber.activate()
    made = accounts.Account(clients.__getitem__, "us-east-1", "123456789012")
    monkeypatch.setattr(accounts, "connect", lambda region: made)
    monkeypatch.setattr(accounts, "region_of", lambda region: region or "us-east-1")
    return stubbers


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["up", "aws", "--project", "Gridbench"], "project 'Gridbench' must be 2 to 21 small letters"),
        (
            ["up", "aws", "--region", "us-est-1"],
            "region 'us-est-1' has no AWS Batch; did you mean us-west-1?",
        ),
        (["up", "aws", "--instances", "p3.2xlarge"], "p3.2xlarge: AWS Batch has no machine image for it"),
        (["up", "aws", "--instances", " , "], "--instances is empty"),
        (["up", "aws", "--email", "nobody"], "--email 'nobody'"),
        (["up", "aws", "--secret", "pnu_secret"], "--secret must be the ARN of a secret"),
        (["status", "aws", "--project", "A"], "project 'A' must be"),
        (["down", "aws", "--region", "mars"], "region 'mars' has no AWS Batch"),
    ],
)
def test_nonsense_is_refused_before_aws_hears_of_it(run, offline, words, sentence):
    code, output = run(*words)
    assert code == 2 and output.startswith("error: ") and sentence in output
    assert "Traceback" not in output


@pytest.mark.parametrize("words", [("up", "aws", "--stack-only"), ("status", "aws"), ("down", "aws")])
def test_no_credentials_is_one_sentence(run, offline, words):
    code, output = run(*words)
    assert code == 2
    assert output.startswith("error: AWS credentials were not found: run `aws configure`, or set AWS_PROFILE")


@pytest.mark.parametrize("words", [("up", "aws", "--stack-only"), ("status", "aws")])
def test_access_denied_is_one_sentence(run, answers, words):
    answers["cloudformation"].add_client_error("describe_stacks", "AccessDenied", "User: x is not authorized")
    code, output = run(*words)
    assert code == 2
    assert output == (
        "error: AWS refuses DescribeStacks: User: x is not authorized; docs/aws.md lists the rights that are needed"
    )


def a_stack(status):
    row = {"StackName": "gridbench", "StackId": "arn:aws:cloudformation:us-east-1:1:stack/gridbench/1"}
    parameters = [{"ParameterKey": "Project", "ParameterValue": "gridbench"}]
    made = datetime(2026, 11, 21, tzinfo=UTC)
    return {"Stacks": [row | {"CreationTime": made, "StackStatus": status, "Parameters": parameters}]}


def test_a_stack_in_rollback_complete_can_only_be_deleted(run, answers):
    event = {
        "StackId": "1",
        "EventId": "1",
        "StackName": "gridbench",
        "Timestamp": datetime(2026, 11, 21, tzinfo=UTC),
        "LogicalResourceId": "JobRole",
        "ResourceType": "AWS::IAM::Role",
        "ResourceStatus": "CREATE_FAILED",
        "ResourceStatusReason": "not authorized.",
    }
    answers["cloudformation"].add_response("describe_stacks", a_stack("ROLLBACK_COMPLETE"))
    answers["cloudformation"].add_response("describe_stack_events", {"StackEvents": [event]})
    code, output = run("up", "aws", "--stack-only")
    assert code == 2
    assert output == (
        "error: stack gridbench is in ROLLBACK_COMPLETE (JobRole (AWS::IAM::Role): not authorized): "
        "it can only be deleted; `gridbench down aws`, then again"
    )


def facts():
    row = {"provider": "aws", "region": "us-east-1", "source": "test", "date": "2026-11-21"}
    prices = (("g5.xlarge", "on-demand", 1.0), ("c5.2xlarge", "on-demand", 0.3), ("c5.2xlarge", "spot", 0.1))
    return tuple(Fact(**row, instance=name, purchase=how, usd_per_hour=usd) for name, how, usd in prices)


@pytest.fixture
def prices(monkeypatch):
    monkeypatch.setattr(aws_text, "prices", facts)


MACHINES = [MachineType("g5.xlarge", 4, 16384, 1), MachineType("c5.2xlarge", 8, 16384, 0)]


def test_the_highest_possible_cost_of_the_stack_is_printed(capsys, prices):
    aws_text.show_costs(MACHINES, {"MaxGpuVcpus": "10", "MaxCpuVcpus": "8"}, "us-east-1")
    output = " ".join(capsys.readouterr().out.split())
    extra = aws_text.DISK_USD_PER_HOUR + aws_text.ADDRESS_USD_PER_HOUR
    total = 2 * (1.0 + extra) + 0.3 + extra
    assert f"at most {total:.2f} USD an hour on demand" in output
    assert "4 queues with a cap of 8 or 10 vCPUs each can run 36 vCPUs together" in output


def test_the_cost_of_an_idle_month_on_aws_is_printed_as_a_sum(capsys, prices):
    caps = {"MaxGpuVcpus": "10", "MaxCpuVcpus": "8"}
    aws_text.show_costs(MACHINES, caps, "us-east-1")
    output = " ".join(capsys.readouterr().out.split())
    assert "Idle, about 0.75 USD a month (images 0.70 for 7 GB, results 0.02 for 1 GB, logs 0.03" in output
    assert "at most, about 12.05 USD" in output and "--email" in output
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:key"
    aws_text.show_costs(MACHINES, caps | {"PrefectApiKeySecretArn": arn, "BudgetEmail": "a@b.c"}, "us-east-1")
    output = " ".join(capsys.readouterr().out.split())
    assert "Idle, about 1.15 USD a month" in output and "secrets 0.40" in output and "--email" not in output


def test_a_region_without_prices_is_reported(capsys, prices):
    aws_text.show_costs(MACHINES, {"MaxGpuVcpus": "4", "MaxCpuVcpus": "8"}, "eu-central-1")
    output = " ".join(capsys.readouterr().out.split())
    assert (
        "at most 0.00 USD" in output
        and "No price in deployments/prices.yaml for g5.xlarge, c5.2xlarge" in output
    )


def an_instance(name, kind, spot):
    since = datetime.now(UTC) - timedelta(minutes=90)
    return RunningInstance(name, kind, "running", spot, since, "us-east-1a")


def test_running_instances_are_counted_by_purchase(capsys, prices):
    running = [an_instance("i-1", "c5.2xlarge", True), an_instance("i-2", "c5.2xlarge", False)]
    running += [an_instance("i-3", "g5.xlarge", True), an_instance("i-4", "p9.huge", False)]
    aws_text.show_instances(running, "us-east-1")
    output = " ".join(capsys.readouterr().out.split())
    extra = 3 * (aws_text.DISK_USD_PER_HOUR + aws_text.ADDRESS_USD_PER_HOUR)
    # the spot g5.xlarge has no spot price: its on-demand price is the bound
    assert f"Now: {0.1 + 0.3 + 1.0 + extra:.2f} USD an hour" in output
    assert "without p9.huge, which has no price" in output and "spot 90 0.100" in output


def test_no_machine_costs_nothing(capsys):
    aws_text.show_instances([], "us-east-1")
    assert capsys.readouterr().out == "No machine runs: 0 USD an hour.\n"


def test_a_queue_is_shown_with_its_waiting_jobs_and_its_fault(capsys, monkeypatch):
    monkeypatch.setattr(aws_text.console, "width", 200, raising=False)
    jobs = {"SUBMITTED": 1, "RUNNABLE": 2, "RUNNING": 1, "FAILED": 5}
    aws_text.show_queues([Queue("q", "ENABLED", "ENABLED, INVALID: no role", jobs, 8, 16)])
    output = " ".join(capsys.readouterr().out.split())
    state = "ENABLED; machines ENABLED, INVALID: no role"
    assert f"q {state} 1 SUBMITTED, 2 RUNNABLE, 1 RUNNING, 5 FAILED 8 of 16" in output


def test_the_pools_template_is_the_workers_own_with_its_defaults_filled():
    from infra.aws.pool import filled_template, pool_variables
    from infra.aws.stack import Stack
    from infra.workers.batch.worker import AwsBatchWorker

    outputs = {
        "Region": "us-east-1",
        "JobRoleArn": "arn:aws:iam::123456789012:role/job",
        "ExecutionRoleArn": "arn:aws:iam::123456789012:role/execution",
        "LogGroupName": "/gridbench/gridbench",
        "PrefectApiKeySecretArn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:key",
        "PrefectAuthStringSecretArn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:auth",
    }
    stack = Stack("id", "gridbench", "CREATE_COMPLETE", {"Project": "gridbench"}, outputs)
    variables = pool_variables(stack, MACHINES, "registry/image@sha256:1")
    assert variables["job_queue"] == "gridbench-c5-2xlarge" and not variables.get("gpus"), (
        "a hardware file without GPUs says nothing of them"
    )
    assert pool_variables(stack, MACHINES[:1], "registry/image@sha256:1")["gpus"] == 1
    template = AwsBatchWorker.get_default_base_job_template()
    filled = filled_template(template, variables)
    properties = filled["variables"]["properties"]
    assert {name: properties[name]["default"] for name in variables} == variables
    assert set(properties) == set(template["variables"]["properties"])
    assert filled["job_configuration"] == template["job_configuration"]
    assert "registry/image" not in json.dumps(template)
