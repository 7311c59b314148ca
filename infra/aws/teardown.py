"""Deletion of a project. Safe to repeat."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from infra.aws import stack as stacks
from infra.aws.account import Account, gone, rows
from infra.aws.errors import AwsError
from infra.aws.leftovers import repositories
from infra.aws.state import ALIVE, LIVE, jobs_in, queues_of, read_instances
from infra.aws.sweep import detach_policy, sweep

REASON = "gridbench down aws"
GOING = (*ALIVE, "shutting-down")  # a machine keeps its address until it is gone
WAIT_S = 900.0  # ECS gives a container 30 s; the machine under it can take minutes
Say = Callable[[str], None]


def objects_in(s3: Any, bucket: str) -> int:
    """Leave out old versions."""
    return len(rows(s3, "list_objects_v2", "Contents", Bucket=bucket))


def take_down(account: Account, project: str, say: Say) -> None:
    """Delete everything of the project except its results."""
    batch, cfn = account.client("batch"), account.client("cloudformation")
    stop_queues(batch, project, say)
    empty_repository(account, project, say)
    if stack := stacks.read_ours(cfn, project):
        release_policies(account, stack, say)
        wait_for_machines(account, project, say)
        say(f"deleting stack {stack.name}")
        _delete_stack(account, stack, say)
    sweep(account, project, say)


def release_policies(account: Account, stack: stacks.Stack, say: Say) -> None:
    for output in ("WorkerPolicyArn", "ResultsPolicyArn"):
        try:
            had = detach_policy(account, stack.outputs[output]) if output in stack.outputs else []
        except ClientError as error:
            if not gone(error):
                raise
            continue
        if had:
            say(f"{output} was taken from {', '.join(had)}")


def wait_for_machines(account: Account, project: str, say: Say) -> None:
    """Wait until Batch has ended its idle machines: a network with machines can't be deleted.

    CloudFormation ends the rest with their compute environments.
    """
    ec2, deadline, counts = account.client("ec2"), time.monotonic() + WAIT_S, set()
    while machines := read_instances(ec2, project, GOING):
        if len(machines) not in counts:
            counts.add(len(machines))
            say(f"waiting until Batch has ended {len(machines)} machines, among them {machines[0].id}")
        if time.monotonic() > deadline:
            say(f"{len(machines)} machines run after {WAIT_S / 60:.0f} minutes: CloudFormation ends them")
            return
        time.sleep(stacks.POLL_S)


def _delete_stack(account: Account, stack: stacks.Stack, say: Say) -> None:
    cfn, project = account.client("cloudformation"), stack.name

    def tell(event: stacks.Event) -> None:
        say(f"  {event['ResourceStatus']} {event['LogicalResourceId']}")

    left = stacks.delete(cfn, stack, tell)
    if left and left.status == "DELETE_FAILED":  # often only because a machine had not ended yet
        wait_for_machines(account, project, say)
        left = stacks.delete(cfn, left, tell)
    if left:
        why = stacks.first_reason(cfn, stack.id) or left.reason or "no reason given"
        raise AwsError(f"stack {stack.name} is in {left.status}: {why}; run `gridbench down aws` again")


def start_queues(batch: Any, project: str, say: Say) -> None:
    """Enable the queues: CloudFormation does not notice that an interrupted `down` left them off."""
    for queue in queues_of(batch, project):
        if queue["state"] != "ENABLED":
            say(f"job queue {queue['jobQueueName']} was disabled and is enabled again")
            batch.update_job_queue(jobQueue=queue["jobQueueName"], state="ENABLED")


def stop_queues(batch: Any, project: str, say: Say) -> None:
    queues = queues_of(batch, project)
    for queue in queues:
        if queue["state"] != "DISABLED":
            batch.update_job_queue(jobQueue=queue["jobQueueName"], state="DISABLED")
    names = [queue["jobQueueName"] for queue in queues]
    deadline, ended = time.monotonic() + WAIT_S, set()
    while jobs := [job for name in names for job in jobs_in(batch, name, LIVE)]:
        for job in jobs:
            if job["jobId"] not in ended:
                say(f"ending job {job['jobName']} ({job['status']})")
                batch.terminate_job(jobId=job["jobId"], reason=REASON)
                ended.add(job["jobId"])
        if time.monotonic() > deadline:
            raise AwsError(
                f"{len(jobs)} jobs do not end, among them {jobs[0]['jobId']}: try again in some minutes"
            )
        time.sleep(stacks.POLL_S)


def empty_repository(account: Account, project: str, say: Say) -> None:
    ecr = account.client("ecr")
    for name in repositories(account, project):
        images = rows(ecr, "list_images", "imageIds", repositoryName=name)
        if images:
            say(f"deleting {len(images)} images of {name}")
        for batch in _hundreds(images):
            ecr.batch_delete_image(repositoryName=name, imageIds=batch)


def delete_bucket(s3: Any, bucket: str, say: Say) -> None:
    """Delete a bucket with every version of every object."""
    deleted = 0
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        versions = [
            {"Key": row["Key"], "VersionId": row["VersionId"]}
            for kind in ("Versions", "DeleteMarkers")
            for row in page.get(kind, [])
        ]
        for batch in _hundreds(versions, 1000):
            answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
            if errors := answer.get("Errors"):
                first = errors[0]
                raise AwsError(
                    f"{first['Key']} in {bucket} can't be deleted: {first.get('Message', first['Code'])}"
                )
            deleted += len(batch)
    s3.delete_bucket(Bucket=bucket)
    say(f"deleted bucket {bucket} with {deleted} versions of its objects")


def _hundreds(rows_: list[Any], size: int = 100) -> Iterator[list[Any]]:
    return (rows_[start : start + size] for start in range(0, len(rows_), size))
