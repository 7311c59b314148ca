"""The stack deployed for real into the emulator: its queues run jobs, and `down` leaves nothing behind."""

import json
import sys
import time

import boto3
import pytest
import typer

from gridbench import main
from gridbench.machines import aws as commands
from infra.aws import stack as stacks
from infra.aws import teardown
from infra.aws.settings import queue_name

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)

SMALL = ("--instances", "c5.2xlarge,g5.xlarge")
LISTS = {  # every list that a stack could leave something in, asked raw and not by our own code
    "ec2": (
        ("describe_vpcs", "Vpcs"),
        ("describe_subnets", "Subnets"),
        ("describe_route_tables", "RouteTables"),
        ("describe_internet_gateways", "InternetGateways"),
        ("describe_security_groups", "SecurityGroups"),
        ("describe_launch_templates", "LaunchTemplates"),
        ("describe_volumes", "Volumes"),
        ("describe_network_interfaces", "NetworkInterfaces"),
    ),
    "batch": (("describe_job_queues", "jobQueues"), ("describe_compute_environments", "computeEnvironments")),
    "logs": (("describe_log_groups", "logGroups"),),
    "ecr": (("describe_repositories", "repositories"),),
    "s3": (("list_buckets", "Buckets"),),
}


@pytest.fixture
def run(aws, capsys, monkeypatch, tmp_path):
    """Runs a command: its exit code, and all that it printed on one line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stacks, "POLL_S", 0.02)
    program = typer.Typer(pretty_exceptions_enable=False)
    for name, command in (
        ("up", commands.up_aws),
        ("status", commands.status_aws),
        ("down", commands.down_aws),
    ):
        program.command(name)(command)
    monkeypatch.setattr(main, "app", program)

    def go(*words):
        monkeypatch.setattr(sys, "argv", ["gridbench", *words])
        code = 0
        try:
            main.main()
        except SystemExit as ended:
            code = ended.code or 0
        return code, " ".join("".join(capsys.readouterr()).split())

    return go


def inventory(aws):
    """What there is in the account, by kind; roles without those that AWS makes for itself."""
    found = {}
    for service, lists in LISTS.items():
        for operation, key in lists:
            found[key] = len(getattr(aws.client(service), operation)()[key])
    ec2, iam = aws.client("ec2"), aws.client("iam")
    gone = {"deleted", "deleting"}
    found["endpoints"] = [e for e in ec2.describe_vpc_endpoints()["VpcEndpoints"] if e["State"] not in gone]
    running = [i for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]]
    found["instances"] = [i["InstanceId"] for i in running if i["State"]["Name"] != "terminated"]
    roles = [role["RoleName"] for role in iam.list_roles()["Roles"]]
    found["roles"] = [name for name in roles if not name.startswith("AWSServiceRole")]
    found["profiles"] = len(iam.list_instance_profiles()["InstanceProfiles"])
    found["policies"] = len(iam.list_policies(Scope="Local")["Policies"])
    definitions = aws.client("batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    return found | {"definitions": len(definitions)}


def submit(aws, image, command, instance="c5.2xlarge"):
    """A job on a queue of the stack, with what the pool's file says."""
    batch, variables = aws.client("batch"), pool_defaults()
    options = {"awslogs-group": variables["log_group"], "awslogs-stream-prefix": "test"}
    definition = batch.register_job_definition(
        jobDefinitionName="prefect-0123456789",
        type="container",
        containerProperties={
            "image": image,
            "command": command,
            "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "256"}],
            "jobRoleArn": variables["job_role_arn"],
            "executionRoleArn": variables["execution_role_arn"],
            "logConfiguration": {"logDriver": "awslogs", "options": options},
        },
    )["jobDefinitionArn"]
    queue = queue_name("gridbench", instance)
    return batch.submit_job(jobName="test", jobQueue=queue, jobDefinition=definition)["jobId"]


def pool_defaults():
    with open("aws-pool.json") as file:
        properties = json.load(file)["variables"]["properties"]
    return {name: value.get("default") for name, value in properties.items()}


def wait(aws, job, states):
    while True:
        (row,) = aws.client("batch").describe_jobs(jobs=[job])["jobs"]
        if row["status"] in states:
            return row
        time.sleep(0.1)


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
        "Idle it costs nothing by the hour",
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
    assert code == 0 and "stack gridbench is that already: nothing to change" in said
    assert "ParameterKey=MaxCpuVcpus,ParameterValue=8" in said  # what was wished before stays
    code, said = run("up", "--yes", "--max-cpu-vcpus", "16")
    assert code == 0 and "Modify OnDemandMachinesc52xlarge" in said
    machines = aws.client("batch").describe_compute_environments(computeEnvironments=["gridbench-c5-2xlarge"])
    assert machines["computeEnvironments"][0]["computeResources"]["maxvCpus"] == 16


def test_no_gpus_makes_no_gpu_queues(aws, run):
    assert run("up", "--yes", "--instances", "m7i.2xlarge")[0] == 0
    queues = aws.client("batch").describe_job_queues()["jobQueues"]
    assert sorted(row["jobQueueName"] for row in queues) == [
        "gridbench-m7i-2xlarge",
        "gridbench-m7i-2xlarge-spot",
    ]


def test_what_is_not_confirmed_is_not_done(aws, run, monkeypatch):
    before = inventory(aws)
    monkeypatch.setattr("typer.confirm", lambda question: False)
    code, said = run("up", *SMALL)
    assert code == 2 and said.endswith(
        "error: not confirmed, nothing was changed; --yes does it without asking"
    )
    assert inventory(aws) == before
    assert aws.client("cloudformation").describe_stacks()["Stacks"] == []
    assert run("up", "--yes", *SMALL)[0] == 0
    code, said = run("down")
    assert code == 2 and "job queues: gridbench-" in said and "not confirmed" in said
    assert run("status")[0] == 0


def put_results(aws):
    s3 = aws.client("s3")
    (bucket,) = [row["Name"] for row in s3.list_buckets()["Buckets"]]
    # moto's CloudFormation leaves versioning out
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket=bucket, Key="run/plan.json", Body=body)
    s3.put_object(Bucket=bucket, Key="gone", Body=b"3")
    s3.delete_object(Bucket=bucket, Key="gone")
    return bucket


@pytest.mark.chaos
def test_results_outlive_the_stack_until_they_are_given_up(aws, run, monkeypatch):
    before = inventory(aws)
    run("up", "--yes", *SMALL)
    bucket = put_results(aws)
    code, said = run("down", "--yes")
    assert code == 0 and f"bucket {bucket} with 1 objects of results: kept" in said
    assert aws.client("s3").get_object(Bucket=bucket, Key="run/plan.json")["Body"].read() == b"2"
    code, said = run("up", "--yes", *SMALL)
    assert code == 0 and f"bucket {bucket} of an earlier stack is used again" in said
    assert len(aws.client("s3").list_buckets()["Buckets"]) == 1
    monkeypatch.setattr("typer.prompt", lambda question: "gridbench")
    code, said = run("down", "--delete-results")
    assert code == 2 and f"{bucket} was not typed, nothing was deleted" in said
    assert run("status")[0] == 0
    monkeypatch.setattr("typer.prompt", lambda question: bucket)
    code, said = run("down", "--delete-results")
    assert code == 0 and f"deleted bucket {bucket} with 4 versions" in said
    assert inventory(aws) == before


@pytest.mark.chaos
def test_down_ends_jobs_and_may_be_interrupted(aws, base_image, run, monkeypatch):
    before = inventory(aws)
    run("up", "--yes", *SMALL)
    job = submit(aws, base_image, ["sleep", "300"])
    wait(aws, job, ("RUNNING",))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(teardown.stacks, "delete", interrupted)
        assert run("down", "--yes")[0] == 130
    assert wait(aws, job, ("FAILED",))["statusReason"] == "gridbench down aws"
    assert "DISABLED" in run("status")[1]
    code, said = run("up", "--yes")
    assert code == 0 and "job queue gridbench-c5-2xlarge was off and takes jobs again" in said
    assert "DISABLED" not in run("status")[1]
    code, said = run("down", "--yes")
    assert code == 0, said
    assert inventory(aws) == before


def test_a_policy_that_somebody_has_does_not_keep_the_stack(aws, run):
    iam = aws.client("iam")
    run("up", "--yes", *SMALL)
    (arn,) = [p["Arn"] for p in iam.list_policies(Scope="Local")["Policies"] if "WorkerPolicy" in p["Arn"]]
    iam.create_user(UserName="me")
    iam.attach_user_policy(UserName="me", PolicyArn=arn)
    code, said = run("down", "--yes")
    assert code == 0 and "WorkerPolicyArn was taken from user me" in said
    assert iam.list_attached_user_policies(UserName="me")["AttachedPolicies"] == []


@pytest.mark.chaos
def test_what_has_no_stack_is_found_and_cleared_away(aws, run):
    before = inventory(aws)
    run("up", "--yes", *SMALL)
    image = aws.client("ec2").describe_images()["Images"][0]["ImageId"]
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "gridbench", "Value": "gridbench"}]}]
    aws.client("ec2").run_instances(
        ImageId=image, MinCount=1, MaxCount=1, InstanceType="g5.xlarge", TagSpecifications=tags
    )
    assert "g5.xlarge" in run("status")[1].partition("Machines")[2]
    from moto.cloudformation.models import cloudformation_backends

    for backend in cloudformation_backends["123456789012"].values():
        backend.stacks.clear()  # somebody's stack went, and its resources did not
    code, said = run("status")
    assert code == 1 and "no stack, but this is left" in said
    for words in (
        "instances: i-",
        "job queues: gridbench-",
        "VPCs: vpc-",
        "roles: gridbench-",
        "log groups: /",
    ):
        assert words in said
    code, said = run("down", "--yes")
    assert code == 0, said
    left = inventory(aws)
    del left["NetworkInterfaces"], before["NetworkInterfaces"]  # moto's terminated machines keep theirs
    assert left == before


@pytest.mark.chaos
def test_another_projects_stack_is_left_alone(aws, run):
    run("up", "--yes", *SMALL, "--project", "gridbench-two")
    both = inventory(aws)
    run("up", "--yes", *SMALL)
    assert run("down", "--yes")[0] == 0
    assert inventory(aws) == both
    assert run("status", "--project", "gridbench-two")[0] == 0


def test_a_stack_of_somebody_elses_is_refused(aws, run):
    body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    boto3.client("cloudformation", region_name="us-east-1").create_stack(
        StackName="gridbench", TemplateBody=body
    )
    for command in ("up", "down"):
        code, said = run(command, "--yes")
        assert code == 2 and "that Gridbench did not make: choose another --project" in said
