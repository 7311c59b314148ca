from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from infra.aws import stack as stacks
from infra.aws import sweep, teardown
from infra.aws.account import Account

STATES = ["pending", "running", "stopping", "stopped", "shutting-down"]
FILTERS = [
    {"Name": "tag:gridbench", "Values": ["gridbench"]},
    {"Name": "instance-state-name", "Values": STATES},
]


@pytest.fixture
def ec2(monkeypatch):
    monkeypatch.setattr(stacks, "POLL_S", 0)
    keys = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client("ec2", **keys)


def machines(*states):
    rows = [
        {
            "InstanceId": f"i-{number}",
            "InstanceType": "c5.2xlarge",
            "State": {"Name": state},
            "LaunchTime": datetime(2026, 11, 21, tzinfo=UTC),
            "Placement": {"AvailabilityZone": "us-east-1a"},
        }
        for number, state in enumerate(states)
    ]
    return {"Reservations": [{"Instances": rows}]}


def wait(ec2, *answers):
    said = []
    with Stubber(ec2) as stubber:
        for states in answers:
            stubber.add_response("describe_instances", machines(*states), {"Filters": FILTERS})
        account = Account({"ec2": ec2}.__getitem__, "us-east-1", "123456789012")
        teardown.wait_for_machines(account, "gridbench", said.append)
        stubber.assert_no_pending_responses()
    return said


def test_teardown_waits_until_the_last_machine_is_gone(ec2):
    said = wait(ec2, ["running", "running"], ["running", "shutting-down"], ["shutting-down"], [])
    assert said == [
        "waiting until Batch has ended 2 machines, among them i-0",
        "waiting until Batch has ended 1 machines, among them i-0",
    ]


def test_without_machines_nothing_is_reported(ec2):
    assert wait(ec2, []) == []


def test_teardown_waits_for_machines_up_to_a_limit(ec2, monkeypatch):
    monkeypatch.setattr(teardown, "WAIT_S", -1.0)
    said = wait(ec2, ["running"])
    assert said[-1].endswith("CloudFormation ends them")


def test_the_stack_is_deleted_after_its_machines_and_once_more_if_one_was_late(monkeypatch):
    steps = []
    stack = stacks.Stack("id", "gridbench", "CREATE_COMPLETE")
    ends = [stacks.Stack("id", "gridbench", "DELETE_FAILED"), None]
    account = Account(lambda service: service, "us-east-1", "123456789012")

    def delete(cfn, stack, tell):
        steps.append("delete")
        return ends.pop(0)

    monkeypatch.setattr(stacks, "read_ours", lambda cfn, project: stack)
    monkeypatch.setattr(stacks, "delete", delete)
    monkeypatch.setattr(teardown, "wait_for_machines", lambda *_: steps.append("wait"))
    for step in ("stop_queues", "empty_repository", "release_policies", "sweep"):
        monkeypatch.setattr(teardown, step, lambda *_: None)
    teardown.take_down(account, "gridbench", steps.append)
    assert steps == ["wait", "deleting stack gridbench", "delete", "wait", "delete"]


def test_a_machine_that_does_not_end_is_reported_and_the_sweep_continues(ec2):
    waiter = ec2.get_waiter("instance_terminated")
    waiter.config.max_attempts = 1
    lines = []
    with Stubber(ec2) as stubbed:
        stubbed.add_response("describe_instances", machines("shutting-down"))
        sweep.try_to_remove("instances", "i-0", lambda: waiter.wait(InstanceIds=["i-0"]), lines.append)
    sweep.try_to_remove("volumes", "vol-0", lambda: None, lines.append)
    assert lines == [
        "instances: i-0 stays: Waiter InstanceTerminated failed: Max attempts exceeded",
        "deleted from volumes: vol-0",
    ]
