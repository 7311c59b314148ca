"""A stack's activity."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.aws.account import TAG, Client, rows

LIVE = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")
ENDED = ("SUCCEEDED", "FAILED")  # Batch shows them for 7 days
ALIVE = ("pending", "running", "stopping", "stopped")
CALLS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its compute environment.

    `state` has the status if that is not VALID, `machines` the reason if INVALID. `desired_vcpus` is Batch's
    target.
    """

    name: str
    state: str
    machines: str
    jobs: Mapping[str, int]
    desired_vcpus: int
    max_vcpus: int


@dataclass(frozen=True, slots=True)
class RunningInstance:
    """A machine that costs money now."""

    id: str
    type: str
    state: str
    spot: bool
    since: datetime
    zone: str


def queues_of(batch: Any, project: str) -> list[dict[str, Any]]:
    return _with_tag(rows(batch, "describe_job_queues", "jobQueues"), project)


def environments_of(batch: Any, project: str) -> list[dict[str, Any]]:
    return _with_tag(rows(batch, "describe_compute_environments", "computeEnvironments"), project)


def _with_tag(found: list[dict[str, Any]], project: str) -> list[dict[str, Any]]:
    return [
        row for row in found if row.get("tags", {}).get(TAG) == project and row.get("status") != "DELETED"
    ]


def jobs_in(batch: Any, queue: str, states: tuple[str, ...] = LIVE) -> list[dict[str, Any]]:
    return [
        job
        for state in states
        for job in rows(batch, "list_jobs", "jobSummaryList", jobQueue=queue, jobStatus=state)
    ]


def read_queues(client: Client, project: str) -> list[Queue]:
    batch = client("batch")
    environments = {row["computeEnvironmentArn"]: row for row in environments_of(batch, project)}
    queue_rows = sorted(queues_of(batch, project), key=lambda row: row["jobQueueName"])
    with ThreadPoolExecutor(CALLS_AT_ONCE) as calls:
        jobs = list(calls.map(lambda row: jobs_in(batch, row["jobQueueName"], LIVE + ENDED), queue_rows))
    return [_queue(row, environments, mine) for row, mine in zip(queue_rows, jobs, strict=True)]


def _queue(row: dict[str, Any], environments: Mapping[str, Any], jobs: list[dict[str, Any]]) -> Queue:
    behind = [environments.get(order["computeEnvironment"], {}) for order in row["computeEnvironmentOrder"]]
    resources = [machines.get("computeResources", {}) for machines in behind]
    return Queue(
        name=row["jobQueueName"],
        state=_state(row),
        machines="; ".join(_state(machines) for machines in behind if machines) or "none",
        jobs=dict(Counter(job["status"] for job in jobs)),
        desired_vcpus=sum(int(each.get("desiredvCpus") or 0) for each in resources),
        max_vcpus=sum(int(each.get("maxvCpus") or 0) for each in resources),
    )


def _state(row: Mapping[str, Any]) -> str:
    status = row.get("status", "VALID")
    if status == "VALID":
        return str(row["state"])
    reason = row.get("statusReason", "")
    return f"{row['state']}, {status}" + (f": {reason}" if reason else "")


def read_instances(ec2: Any, project: str, states: tuple[str, ...] = ALIVE) -> list[RunningInstance]:
    """Return the machines in these states, by default those that cost money."""
    filters = [
        {"Name": f"tag:{TAG}", "Values": [project]},
        {"Name": "instance-state-name", "Values": list(states)},
    ]
    reservations = rows(ec2, "describe_instances", "Reservations", Filters=filters)
    return [
        RunningInstance(
            row["InstanceId"],
            row["InstanceType"],
            row["State"]["Name"],
            row.get("InstanceLifecycle") == "spot",
            row["LaunchTime"],
            row["Placement"]["AvailabilityZone"],
        )
        for reservation in reservations
        for row in reservation["Instances"]
    ]
