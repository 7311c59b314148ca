import pytest

from infra.aws import teardown
from tests.infra.aws.stacks import SMALL, inventory, submit, wait

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


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


def test_down_ends_jobs_and_can_be_interrupted(aws, base_image, run, monkeypatch):
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
    assert code == 0 and "job queue gridbench-c5-2xlarge was disabled and is enabled again" in said
    assert "DISABLED" not in run("status")[1]
    code, said = run("down", "--yes")
    assert code == 0, said
    assert inventory(aws) == before


def test_resources_without_a_stack_are_found_and_deleted(aws, run):
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
        backend.stacks.clear()  # a stack was deleted, but not its resources
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


def test_another_projects_stack_is_left_alone(aws, run):
    run("up", "--yes", *SMALL, "--project", "gridbench-two")
    both = inventory(aws)
    run("up", "--yes", *SMALL)
    assert run("down", "--yes")[0] == 0
    assert inventory(aws) == both
    assert run("status", "--project", "gridbench-two")[0] == 0
