from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.stub import ANY, Stubber

from infra.aws import stack as stacks
from infra.aws.errors import AwsError

ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/gridbench/1"
SET = "arn:aws:cloudformation:us-east-1:123456789012:changeSet/gridbench/1"
START = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def cfn(monkeypatch):
    monkeypatch.setattr(stacks, "POLL_S", 0)
    return boto3.client(
        "cloudformation", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


@pytest.fixture
def answers(cfn):
    with Stubber(cfn) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def a_stack(status, **more):
    parameters = [{"ParameterKey": "Project", "ParameterValue": "gridbench"}]
    row = {"StackName": "gridbench", "StackId": ID, "CreationTime": START, "Parameters": parameters}
    return {"Stacks": [row | {"StackStatus": status} | more]}


def some_events(*rows):
    found = [
        {
            "StackId": ID,
            "StackName": "gridbench",
            "EventId": f"{name}-{status}-{number}",
            "LogicalResourceId": name,
            "ResourceType": f"AWS::{name}",
            "Timestamp": START + timedelta(seconds=number),
            "ResourceStatus": status,
            **({"ResourceStatusReason": reason} if reason else {}),
        }
        for number, (name, status, reason) in enumerate(rows)
    ]
    return {"StackEvents": found[::-1]}


FAILURE = (
    ("Vpc", "CREATE_COMPLETE", ""),
    ("OnDemandMachinesg5xlarge", "CREATE_FAILED", "Resource creation cancelled"),
    ("InstanceRole", "CREATE_FAILED", "User is not authorized to perform: iam:CreateRole."),
    ("Repository", "CREATE_FAILED", "Resource creation cancelled"),
    ("gridbench", "ROLLBACK_IN_PROGRESS", "The following resource(s) failed to create: [InstanceRole]."),
)
WHY = "InstanceRole (AWS::InstanceRole): User is not authorized to perform: iam:CreateRole"


def test_the_first_real_reason_is_reported(cfn, answers):
    answers.add_response("describe_stack_events", some_events(*FAILURE), {"StackName": ID})
    assert stacks.first_reason(cfn, ID) == WHY


def test_a_reason_of_last_time_is_not_todays(cfn, answers):
    answers.add_response("describe_stack_events", some_events(*FAILURE), {"StackName": ID})
    seen = frozenset({"InstanceRole-CREATE_FAILED-2"})
    assert stacks.first_reason(cfn, ID, seen) == ""


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "CREATE_FAILED", "DELETE_FAILED", "ROLLBACK_FAILED"])
def test_a_broken_stack_is_refused_with_its_reason(cfn, answers, status):
    answers.add_response("describe_stacks", a_stack(status))
    answers.add_response("describe_stack_events", some_events(*FAILURE))
    with pytest.raises(AwsError) as refused:
        stacks.check_ready(cfn, stacks.read_ours(cfn, "gridbench"))
    sentence = str(refused.value)
    assert sentence.startswith(f"stack gridbench is in {status} ({WHY}): it can only be deleted")
    assert "`gridbench down aws`" in sentence


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        ("UPDATE_IN_PROGRESS", "is busy"),
        ("DELETE_IN_PROGRESS", "is busy"),
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback --stack-name gridbench"),
    ],
)
def test_a_busy_or_stuck_stack_is_refused(cfn, answers, status, advice):
    answers.add_response("describe_stacks", a_stack(status))
    with pytest.raises(AwsError, match=advice):
        stacks.check_ready(cfn, stacks.read_ours(cfn, "gridbench"))


@pytest.mark.parametrize("status", ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"])
def test_a_stack_at_rest_can_be_changed(cfn, answers, status):
    answers.add_response("describe_stacks", a_stack(status))
    stacks.check_ready(cfn, stacks.read_ours(cfn, "gridbench"))


def test_a_stack_that_does_not_exist_is_read_as_none(cfn, answers):
    words = "Stack with id gridbench does not exist"
    answers.add_client_error("describe_stacks", "ValidationError", words)
    assert stacks.read_ours(cfn, "gridbench") is None


def test_a_foreign_stack_is_left_alone(cfn, answers):
    parameters = [{"ParameterKey": "Team", "ParameterValue": "web"}]
    answers.add_response("describe_stacks", a_stack("CREATE_COMPLETE", Parameters=parameters))
    with pytest.raises(AwsError, match="that Gridbench did not make: choose another --project"):
        stacks.read_ours(cfn, "gridbench")


def prepare(cfn, creates):
    return stacks.prepare(cfn, {"TemplateBody": "{}"}, {"Project": "gridbench"}, "gridbench", creates)


def begin(answers, status, reason="", changes=()):
    answers.add_response("create_change_set", {"Id": SET, "StackId": ID})
    answers.add_response("describe_change_set", {"Status": "CREATE_IN_PROGRESS"})
    answers.add_response("describe_change_set", {"Status": status, "StatusReason": reason})
    answers.add_response("describe_change_set", {"Changes": list(changes)}, {"ChangeSetName": SET})


def test_a_change_set_tells_its_changes(cfn, answers):
    change = {"Action": "Modify", "LogicalResourceId": "Vpc", "ResourceType": "AWS::EC2::VPC"}
    rows = [{"Type": "Resource", "ResourceChange": change | {"Replacement": "Conditional"}}]
    begin(answers, "CREATE_COMPLETE", changes=rows)
    found = prepare(cfn, creates=False)
    assert found.changes == (stacks.ResourceChange("Modify", "Vpc", "AWS::EC2::VPC", "Conditional"),)


@pytest.mark.parametrize(
    "reason", ["The submitted information didn't contain changes.", "No updates are to be performed."]
)
def test_an_empty_change_set_is_read_as_none_and_deleted(cfn, answers, reason):
    begin(answers, "FAILED", reason)
    answers.add_response("delete_change_set", {}, {"ChangeSetName": SET})
    assert prepare(cfn, creates=False).changes == ()


def test_a_failed_change_set_ends_with_its_reason_and_leaves_no_empty_stack(cfn, answers):
    begin(answers, "FAILED", "Template format error: Unresolved resource dependencies [Vpc]")
    answers.add_response("delete_change_set", {}, {"ChangeSetName": SET})
    answers.add_response("describe_stacks", a_stack("REVIEW_IN_PROGRESS"), {"StackName": ID})
    answers.add_response("delete_stack", {}, {"StackName": ID})
    with pytest.raises(
        AwsError, match="CloudFormation refuses the change set: Template format error: Unresolved"
    ):
        prepare(cfn, creates=True)


def test_discarding_can_be_repeated(cfn, answers):
    answers.add_client_error("delete_change_set", "ChangeSetNotFound", "gone")
    stacks.discard(cfn, stacks.ChangeSet(SET, ID, True, ()))


def test_ctrl_c_while_changes_are_worked_out_leaves_no_empty_stack(cfn, answers, monkeypatch):
    answers.add_response("create_change_set", {"Id": SET, "StackId": ID})
    answers.add_response("describe_change_set", {"Status": "CREATE_IN_PROGRESS"})
    answers.add_client_error("delete_change_set", "InvalidChangeSetStatus", "it is CREATE_IN_PROGRESS")
    answers.add_response("describe_stacks", a_stack("REVIEW_IN_PROGRESS", Parameters=[]), {"StackName": ID})
    answers.add_response("delete_stack", {}, {"StackName": ID})
    monkeypatch.setattr(stacks.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare(cfn, creates=True)


def interrupted(_):
    raise KeyboardInterrupt


def carry_out(cfn, answers, end, *, creates, before=(), after=FAILURE):
    answers.add_response("describe_stack_events", some_events(*before))
    answers.add_response("execute_change_set", {}, {"ChangeSetName": SET})
    answers.add_response("describe_stacks", a_stack("CREATE_IN_PROGRESS"))
    answers.add_response("describe_stack_events", some_events(*after[:1]))
    answers.add_response("describe_stacks", a_stack(end))
    answers.add_response("describe_stack_events", some_events(*after))
    told = []
    change_set = stacks.ChangeSet(SET, ID, creates, ())
    return told, lambda: stacks.execute(
        cfn, change_set, lambda event: told.append(event["LogicalResourceId"])
    )


def test_every_event_is_reported_once(cfn, answers):
    told, go = carry_out(cfn, answers, "CREATE_COMPLETE", creates=True)
    assert go().status == "CREATE_COMPLETE"
    assert told == [name for name, _, _ in FAILURE]


@pytest.mark.parametrize(
    ("creates", "end", "after"),
    [
        (True, "ROLLBACK_COMPLETE", "`gridbench down aws` deletes it"),
        (False, "UPDATE_ROLLBACK_COMPLETE", "the stack is unchanged"),
    ],
)
def test_a_rolled_back_stack_ends_with_the_first_reason(cfn, answers, creates, end, after):
    _, go = carry_out(cfn, answers, end, creates=creates)
    answers.add_response("describe_stack_events", some_events(*FAILURE))
    with pytest.raises(AwsError) as failed:
        go()
    assert str(failed.value).startswith(f"the stack could not be made ({end}): {WHY}; ") and after in str(
        failed.value
    )


def test_a_change_set_is_requested_with_the_capabilities_of_a_plain_template(cfn, answers):
    expected = {
        "StackName": "gridbench",
        "ChangeSetName": ANY,
        "ChangeSetType": "CREATE",
        "TemplateBody": "{}",
        "Parameters": [{"ParameterKey": "Project", "ParameterValue": "gridbench"}],
        "Capabilities": ["CAPABILITY_IAM"],
        "Tags": [{"Key": "gridbench", "Value": "gridbench"}],
    }
    answers.add_response("create_change_set", {"Id": SET, "StackId": ID}, expected)
    answers.add_response("describe_change_set", {"Status": "CREATE_COMPLETE"})
    answers.add_response("describe_change_set", {"Changes": []})
    assert prepare(cfn, creates=True).id == SET
