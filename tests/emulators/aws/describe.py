"""Jobs in answers of DescribeJobs and ListJobs, in the shapes of botocore's batch model (JobDetail,
JobSummary).
"""

from typing import Any

from moto.batch.models import datetime2int_milliseconds

from .attempt import Attempt

SHOWN_OF_DEFINITION = (
    "linuxParameters",
    "logConfiguration",
    "jobRoleArn",
    "executionRoleArn",
    "user",
    "privileged",
)
LISTED_OF_DEFINITION = ("volumes", "mountPoints", "ulimits")


def summary(job) -> dict[str, Any]:
    told = {
        "jobId": job.job_id,
        "jobArn": job.arn,
        "jobName": job.job_name,
        "createdAt": datetime2int_milliseconds(job.job_created_at),
        "status": job.status,
        "jobDefinition": job.job_definition.arn,
    }
    last = job.tries[-1] if job.tries else None
    if job.status_reason:
        told["statusReason"] = job.status_reason
    if last and last.started_ms and job.status not in ("RUNNABLE", "STARTING"):
        told["startedAt"] = last.started_ms
    if job.job_stopped:
        told["stoppedAt"] = datetime2int_milliseconds(job.job_stopped_at)
    if last and job.job_stopped:
        told["container"] = ended_container(last)
    return told


def ended_container(attempt: Attempt) -> dict[str, Any]:
    """Return exit code and reason, if any: a lost host reports no exit code."""
    told = {"exitCode": attempt.exit_code, "reason": attempt.reason}
    return {name: value for name, value in told.items() if value is not None}


def detail(job) -> dict[str, Any]:
    told = summary(job) | {
        "jobQueue": job.job_queue.arn,
        "container": container(job),
        "dependsOn": job.depends_on or [],
        "parameters": job.parameters,
        "tags": job.backend.list_tags_for_resource(job.arn),
        "platformCapabilities": ["EC2"],
        "isCancelled": bool(job.stop and not job.tries),
        "isTerminated": bool(job.stop and job.tries),
        "attempts": [ended_attempt(attempt) for attempt in job.tries if attempt.stopped_ms],
    }
    if job.retry_strategy:
        told["retryStrategy"] = job.retry_strategy
    if job.timeout_s:
        told["timeout"] = {"attemptDurationSeconds": job.timeout_s}
    return told


def ended_attempt(attempt: Attempt) -> dict[str, Any]:
    """[doc] AttemptDetail: an attempt is listed once it has ended."""
    told = {
        "container": names_of(attempt) | ended_container(attempt),
        "startedAt": attempt.started_ms,
        "stoppedAt": attempt.stopped_ms,
        "statusReason": attempt.status_reason,
    }
    return {name: value for name, value in told.items() if value is not None}


def names_of(attempt: Attempt) -> dict[str, Any]:
    names = {
        "taskArn": f"arn:aws:ecs:us-east-1:123456789012:task/{attempt.place.environment.ecs_name}/{attempt.task}",
        "containerInstanceArn": (
            "arn:aws:ecs:us-east-1:123456789012:container-instance/"
            f"{attempt.place.environment.ecs_name}/{attempt.place.instance_id.removeprefix('i-')}"
        ),
        "networkInterfaces": [],
    }
    return names | ({"logStreamName": attempt.log_stream} if attempt.log_stream else {})


def container(job) -> dict[str, Any]:
    """[doc] ContainerDetail: the request, and the last attempt's log stream (from RUNNING on) and end."""
    properties, overrides = job.properties, job.container_overrides
    told = {
        "image": job.image,
        "command": overrides.get("command") or properties.get("command") or [],
        "environment": [{"name": name, "value": value} for name, value in job.environment.items()],
        "resourceRequirements": overrides.get("resourceRequirements")
        or properties.get("resourceRequirements")
        or [],
    }
    told |= {name: properties.get(name) or [] for name in LISTED_OF_DEFINITION}
    told |= {name: properties[name] for name in SHOWN_OF_DEFINITION if name in properties}
    if job.tries and job.status not in ("RUNNABLE", "STARTING"):
        told |= names_of(job.tries[-1])
    if job.tries and job.job_stopped:
        told |= ended_container(job.tries[-1])
    return told
