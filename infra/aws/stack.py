"""The CloudFormation stack: its state, change sets, and progress."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from infra.aws.account import TAG, gone, rows
from infra.aws.errors import AwsError
from infra.workers.batch.errors import code_of

CAPABILITIES = ["CAPABILITY_IAM"]
UNCHANGED = ("didn't contain changes", "No updates are to be performed")  # quoted
# Events that follow from a failure elsewhere, so they are not its reason.
CONSEQUENCES = ("cancelled", "The following resource(s) failed", "Rollback requested", "Initiated")
UNFINISHED = "InvalidChangeSetStatus"  # a change set that is being worked out stays; it costs nothing
POLL_S = 3.0
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack as CloudFormation has it."""

    id: str
    name: str
    status: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One line of a change set."""

    action: str
    name: str
    kind: str
    replacement: str


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Planned changes; none if the stack is already as requested."""

    id: str
    stack_id: str
    creates: bool
    changes: tuple[ResourceChange, ...]


def read_stack(cfn: Any, name: str) -> Stack | None:
    try:
        raw = cfn.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if gone(error):
            return None
        raise
    if raw["StackStatus"] == "DELETE_COMPLETE" and name != raw["StackId"]:
        return None
    return Stack(
        id=raw["StackId"],
        name=raw["StackName"],
        status=raw["StackStatus"],
        parameters={row["ParameterKey"]: row["ParameterValue"] for row in raw.get("Parameters", [])},
        outputs={row["OutputKey"]: row["OutputValue"] for row in raw.get("Outputs", [])},
        reason=raw.get("StackStatusReason", ""),
    )


def read_ours(cfn: Any, project: str) -> Stack | None:
    stack = read_stack(cfn, project)
    if stack and stack.status != "REVIEW_IN_PROGRESS" and stack.parameters.get("Project") != project:
        raise AwsError(f"there is a stack {project!r} that Gridbench did not make: choose another --project")
    return stack


def check_ready(cfn: Any, stack: Stack | None) -> None:
    status = stack.status if stack else "REVIEW_IN_PROGRESS"
    if stack is None or status == "REVIEW_IN_PROGRESS":
        return
    if status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"):
        why = first_reason(cfn, stack.id)
        because = f" ({why})" if why else ""
        raise AwsError(
            f"stack {stack.name} is in {status}{because}: it can only be deleted; "
            "`gridbench down aws`, then again"
        )
    if status == "UPDATE_ROLLBACK_FAILED":
        raise AwsError(
            f"stack {stack.name} is in {status}: `aws cloudformation continue-update-rollback "
            f"--stack-name {stack.name}`, then again"
        )
    if status.endswith("_IN_PROGRESS"):
        raise AwsError(f"stack {stack.name} is busy ({status}): wait until that has ended, then again")


def prepare(
    cfn: Any, template: Mapping[str, str], parameters: Mapping[str, str], project: str, creates: bool
) -> ChangeSet:
    made = cfn.create_change_set(
        StackName=project,
        ChangeSetName=f"{project}-{datetime.now(UTC):%Y%m%d-%H%M%S}",
        ChangeSetType="CREATE" if creates else "UPDATE",
        **template,
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        Capabilities=CAPABILITIES,
        Tags=[{"Key": TAG, "Value": project}],
    )
    empty = ChangeSet(made["Id"], made["StackId"], creates, ())
    try:
        while (description := cfn.describe_change_set(ChangeSetName=empty.id))["Status"] in (
            "CREATE_PENDING",
            "CREATE_IN_PROGRESS",
        ):
            time.sleep(POLL_S)
        change_set = replace(empty, changes=tuple(_changes(cfn, empty.id)))
    except BaseException:
        discard(cfn, empty)
        raise
    if description["Status"] == "FAILED":
        reason = description.get("StatusReason", "")
        discard(cfn, change_set)
        if any(words in reason for words in UNCHANGED):
            return empty
        raise AwsError(
            f"CloudFormation refuses the change set: {' '.join(reason.split()) or 'no reason given'}"
        )
    return change_set


def _changes(cfn: Any, change_set_id: str) -> Iterator[ResourceChange]:
    for row in rows(cfn, "describe_change_set", "Changes", ChangeSetName=change_set_id):
        change = row.get("ResourceChange", {})
        yield ResourceChange(
            change.get("Action", ""),
            change.get("LogicalResourceId", ""),
            change.get("ResourceType", ""),
            change.get("Replacement", ""),
        )


def discard(cfn: Any, change_set: ChangeSet) -> None:
    """Delete a change set, and a new stack that it left empty. Safe to repeat."""
    try:
        cfn.delete_change_set(ChangeSetName=change_set.id)
    except ClientError as error:
        if gone(error):
            return
        if code_of(error) != UNFINISHED:
            raise
    stack = read_stack(cfn, change_set.stack_id) if change_set.creates else None
    if stack and stack.status == "REVIEW_IN_PROGRESS":
        cfn.delete_stack(StackName=change_set.stack_id)


def execute(cfn: Any, change_set: ChangeSet, on_event: Callable[[Event], None]) -> Stack:
    seen = {event["EventId"] for event in events(cfn, change_set.stack_id)}
    cfn.execute_change_set(ChangeSetName=change_set.id)
    before = frozenset(seen)
    stack = watch(cfn, change_set.stack_id, seen, on_event)
    if stack is None or stack.status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        why = first_reason(cfn, change_set.stack_id, before) or (stack.reason if stack else "")
        status = stack.status if stack else "gone"
        after = "`gridbench down aws` deletes it" if change_set.creates else "the stack is unchanged"
        raise AwsError(f"the stack could not be made ({status}): {why or 'no reason given'}; {after}")
    return stack


def delete(cfn: Any, stack: Stack, on_event: Callable[[Event], None]) -> Stack | None:
    """Delete a stack and wait; return its last state, or None."""
    seen = {event["EventId"] for event in events(cfn, stack.id)}
    if not stack.status.startswith("DELETE_IN"):
        cfn.delete_stack(StackName=stack.id)
    left = watch(cfn, stack.id, seen, on_event)
    return None if left is None or left.status == "DELETE_COMPLETE" else left


def watch(cfn: Any, stack_id: str, seen: set[str], on_event: Callable[[Event], None]) -> Stack | None:
    """Report new events until the stack rests; return None once it is gone."""
    while True:
        stack = read_stack(cfn, stack_id)
        for event in events(cfn, stack_id):
            if event["EventId"] not in seen:
                seen.add(event["EventId"])
                on_event(event)
        if stack is None or not stack.status.endswith("_IN_PROGRESS"):
            return stack
        time.sleep(POLL_S)


def events(cfn: Any, stack_id: str) -> list[Event]:
    try:
        newest_first = rows(cfn, "describe_stack_events", "StackEvents", StackName=stack_id)
    except ClientError as error:
        if gone(error):
            return []
        raise
    return newest_first[::-1]


def first_reason(cfn: Any, stack_id: str, seen: frozenset[str] = frozenset()) -> str:
    """Return the first failure's reason; later failures are its consequences."""
    for event in events(cfn, stack_id):
        reason = " ".join(event.get("ResourceStatusReason", "").split()).rstrip(".")
        real = reason and not any(words in reason for words in CONSEQUENCES)
        if event["EventId"] not in seen and event["ResourceStatus"].endswith("FAILED") and real:
            return f"{event['LogicalResourceId']} ({event['ResourceType']}): {reason}"
    return ""
