import json

import boto3
import pytest

from tests.infra.aws.stacks import SMALL, inventory, pool_defaults, submit, wait
from tests.infra.aws.template_text import MANY

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


def test_up_a_job_and_down_to_nothing(aws, base_image, run):
    before = inventory(aws)
    code, said = run("up", "--yes")
    assert code == 0, said
    queues = {row["jobQueueName"]: row for row in aws.client("batch").describe_job_queues()["jobQueues"]}
    assert len(queues) == 14 and {row["state"] for row in queues.values()} == {"ENABLED"}
    assert "gridbench-g5-8xlarge-spot" in queues
    ended = wait(aws, submit(aws, base_image, ["python3", "-c", "print('ran')"]), ("SUCCEEDED", "FAILED"))
    assert ended["status"] == "SUCCEEDED" and ended["container"]["exitCode"] == 0
    stream = ended["container"]["logStreamName"]
    logged = aws.client("logs").get_log_events(logGroupName="/gridbench/gridbench", logStreamName=stream)
    assert [event["message"] for event in logged["events"]] == ["ran"]
    code, said = run("status")
    assert code == 0 and "stack gridbench in us-east-1: CREATE_COMPLETE" in said
    code, said = run("down", "--yes")
    assert code == 0 and said.endswith("down; nothing of gridbench is left in us-east-1")
    assert inventory(aws) == before
    assert run("down", "--yes")[0] == 0


def test_the_change_set_is_shown_with_the_pool_and_the_same_by_hand(aws, run):
    code, said = run("up", "--yes", *SMALL, "--email", "you@example.com", "--max-cpu-vcpus", "8")
    assert code == 0
    for words in (
        "Add SpotMachinesg5xlarge AWS::Batch::ComputeEnvironment -",
        "Idle, about 0.75 USD a month",
        "prefect work-pool create aws-batch --type aws-batch --base-job-template aws-pool.json",
        "aws cloudformation create-change-set --region us-east-1 --stack-name gridbench",
        "'ParameterKey=BudgetEmail,ParameterValue=you@example.com'",
        "aws cloudformation delete-stack --region us-east-1 --stack-name gridbench",
    ):
        assert words.replace("'", "") in said.replace("'", ""), words
    assert "OnDemandMachinesg6xlarge" not in said
    variables = pool_defaults()
    assert variables["job_queue"] == "gridbench-c5-2xlarge" and variables["region"] == "us-east-1"
    code, said = run("up", "--yes")
    assert code == 0 and "stack gridbench is up to date: nothing to change" in said
    assert "ParameterKey=MaxCpuVcpus,ParameterValue=8" in said  # earlier settings stay
    code, said = run("up", "--yes", "--max-cpu-vcpus", "16")
    assert code == 0 and "Modify OnDemandMachinesc52xlarge" in said
    machines = aws.client("batch").describe_compute_environments(computeEnvironments=["gridbench-c5-2xlarge"])
    assert machines["computeEnvironments"][0]["computeResources"]["maxvCpus"] == 16


def test_the_most_types_come_through_a_bucket_that_is_gone_afterwards(aws, run):
    names = ",".join(machine.name for machine in MANY)
    caps = ("--max-gpu-vcpus", "96", "--max-cpu-vcpus", "96")
    code, said = run("up", "--yes", "--instances", names, *caps)
    assert code == 0, said
    assert len(aws.client("batch").describe_job_queues()["jobQueues"]) == 50
    (bucket,) = [row["Name"] for row in aws.client("s3").list_buckets()["Buckets"]]
    assert not bucket.startswith("gridbench-template-")
    assert "aws s3 mb s3://gridbench-template-gridbench-123456789012-by-hand" in said
    code, said = run("up", "--yes", *caps)
    assert code == 0 and "stack gridbench is up to date" in said  # the stack knows its types


def test_an_untouched_account_has_the_roles_of_the_services_before_they_are_needed(aws, run):
    assert run("up", "--yes", *SMALL)[0] == 0
    roles = {role["RoleName"] for role in aws.client("iam").list_roles()["Roles"]}
    kinds = ("Batch", "ECS", "AutoScaling", "EC2Spot")
    assert {f"AWSServiceRoleFor{kind}" for kind in kinds} <= roles
    assert run("up", "--yes", *SMALL, "--max-cpu-vcpus", "24")[0] == 0  # they exist, which is not an error


def test_no_gpus_makes_no_gpu_queues(aws, run):
    assert run("up", "--yes", "--instances", "m7i.2xlarge")[0] == 0
    queues = aws.client("batch").describe_job_queues()["jobQueues"]
    assert sorted(row["jobQueueName"] for row in queues) == [
        "gridbench-m7i-2xlarge",
        "gridbench-m7i-2xlarge-spot",
    ]


def test_up_and_down_change_nothing_without_confirmation(aws, run, monkeypatch):
    before = inventory(aws)
    monkeypatch.setattr("typer.confirm", lambda question: False)
    code, said = run("up", *SMALL)
    assert code == 2 and "error: not confirmed" in said
    assert inventory(aws) == before
    assert aws.client("cloudformation").describe_stacks()["Stacks"] == []
    assert run("up", "--yes", *SMALL)[0] == 0
    code, said = run("down")
    assert code == 2 and "job queues: gridbench-" in said and "not confirmed" in said
    assert run("status")[0] == 0


def test_a_policy_attached_to_a_user_does_not_keep_the_stack(aws, run):
    iam = aws.client("iam")
    run("up", "--yes", *SMALL)
    (arn,) = [p["Arn"] for p in iam.list_policies(Scope="Local")["Policies"] if "WorkerPolicy" in p["Arn"]]
    iam.create_user(UserName="me")
    iam.attach_user_policy(UserName="me", PolicyArn=arn)
    code, said = run("down", "--yes")
    assert code == 0 and "WorkerPolicyArn was taken from user me" in said
    assert iam.list_attached_user_policies(UserName="me")["AttachedPolicies"] == []


def test_a_foreign_stack_of_the_same_name_is_refused(aws, run):
    body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    boto3.client("cloudformation", region_name="us-east-1").create_stack(
        StackName="gridbench", TemplateBody=body
    )
    for command in ("up", "down"):
        code, said = run(command, "--yes")
        assert code == 2 and "that Gridbench did not make: choose another --project" in said
