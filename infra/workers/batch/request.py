"""A job's definition and its submission as requests."""

import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from typing import Any

from ..base.environment import plain, reach_fault, secrets
from ..base.job_configuration import JobRefused
from .configuration import SECRET_SETTINGS, AwsBatchJobConfiguration

Request = dict[str, Any]

PAYLOAD_BYTES = 30 * 1024  # AWS Batch's limit for a SubmitJob request
# ECS' limit for the overrides of a task, their JSON's own characters included. SubmitJob takes longer ones,
# and the job fails: https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html
OVERRIDES_LENGTH = 8192
BATCHS_OWN = 1024  # of that, for Batch's own variables: names of a queue, an environment and a job
NAME_LENGTH = 128
TAGS = 50
UNTAGGABLE = re.compile(r"[^\w .:/=+@-]")  # characters that AWS refuses in a tag
DEFAULT_VCPUS, DEFAULT_MEMORY_MIB = 1, 2048
# At most five rules, and a failure without a match is retried: hence the last one.
RECLAIMED_ONLY = [
    {"onStatusReason": "Host EC2*", "action": "RETRY"},
    {"onStatusReason": "Your Spot Task was interrupted*", "action": "RETRY"},
    {"onReason": "*", "action": "EXIT"},
]


def job_name(flow_run_id: object, attempt: int, title: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", title).strip("-")
    return f"{name_prefix(flow_run_id, attempt)}{slug}"[:NAME_LENGTH].rstrip("-")


def name_prefix(flow_run_id: object, attempt: int) -> str:
    return f"{flow_run_id}-{attempt}-"


def job_definition(configuration: AwsBatchJobConfiguration) -> Request:
    """Return the RegisterJobDefinition request; its name is a hash of its content."""
    container: Request = {
        "image": configuration.image,
        "resourceRequirements": resources(
            configuration.vcpus or DEFAULT_VCPUS,
            configuration.memory_mib or DEFAULT_MEMORY_MIB,
            configuration.gpus,
        ),
        "linuxParameters": {"initProcessEnabled": True},  # forwards SIGTERM and reaps orphans
    }
    if configuration.shared_memory_mib:
        container["linuxParameters"]["sharedMemorySize"] = configuration.shared_memory_mib
    if configuration.job_role_arn:
        container["jobRoleArn"] = configuration.job_role_arn
    if configuration.execution_role_arn:
        container["executionRoleArn"] = configuration.execution_role_arn
    if configuration.log_group:
        container["logConfiguration"] = {
            "logDriver": "awslogs",
            "options": {"awslogs-group": configuration.log_group, "awslogs-stream-prefix": "prefect"},
        }
    if configuration.secrets:
        secrets = sorted(configuration.secrets.items())
        container["secrets"] = [{"name": name, "valueFrom": arn} for name, arn in secrets]
    content = {"type": "container", "platformCapabilities": ["EC2"], "containerProperties": container}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]
    return {"jobDefinitionName": f"prefect-{digest}", "propagateTags": True, **content}


def submission(
    configuration: AwsBatchJobConfiguration, name: str, definition: str, secret: Iterable[str]
) -> Request:
    """Return the SubmitJob request; `secret` names the variables that the definition fills.

    `JobRefused` if it contains a secret, or is too large for AWS.
    """
    env = plain_env(configuration, secret)
    overrides: Request = {
        "command": shlex.split(configuration.command or ""),
        "environment": [{"name": key, "value": value} for key, value in sorted(env.items())],
    }
    own = resources(configuration.vcpus, configuration.memory_mib, configuration.gpus)
    if configuration.job_definition and own:
        overrides["resourceRequirements"] = own
    request = {
        "jobName": name,
        "jobQueue": configuration.job_queue,
        "jobDefinition": definition,
        "containerOverrides": overrides,
        "retryStrategy": {"attempts": configuration.attempts, "evaluateOnExit": RECLAIMED_ONLY},
        "timeout": {"attemptDurationSeconds": configuration.timeout_s},
        "tags": tags(configuration),
        "propagateTags": True,
    }
    refuse_too_large(request)
    return request


def resources(vcpus: int | None, memory_mib: int | None, gpus: int) -> list[dict[str, str]]:
    amounts = (("VCPU", vcpus), ("MEMORY", memory_mib), ("GPU", gpus))
    return [{"type": kind, "value": str(amount)} for kind, amount in amounts if amount]


def plain_env(configuration: AwsBatchJobConfiguration, secret: Iterable[str]) -> dict[str, str]:
    """Raise `JobRefused` if a secret has no ARN, or the job can't reach the Prefect API."""
    if fault := reach_fault(configuration.env.get("PREFECT_API_URL")):
        raise JobRefused(fault)
    if unkept := next((name for name in secrets(configuration.env) if name not in {*secret}), None):
        where = (
            f"job_definition {configuration.job_definition} has no secret"
            if configuration.job_definition
            else f"{SECRET_SETTINGS[unkept]} is not set"
        )
        raise JobRefused(f"{where}: {unkept} is never sent in plain text: store it in a secret of AWS.")
    return plain(configuration.env)


def tags(configuration: AwsBatchJobConfiguration) -> dict[str, str]:
    cleaned = {
        UNTAGGABLE.sub("-", name)[:128]: UNTAGGABLE.sub("-", value)[:256]
        for name, value in {**configuration.labels, **configuration.tags}.items()
    }
    if len(cleaned) > TAGS:
        raise JobRefused(f"tags and labels have {len(cleaned)} entries: AWS allows {TAGS} in total.")
    return cleaned


def refuse_too_large(request: Request) -> None:
    overrides = request["containerOverrides"]
    size, length = len(json.dumps(request).encode()), len(json.dumps(overrides))
    if length > OVERRIDES_LENGTH - BATCHS_OWN:
        what = f"env and command {length} characters long, but AWS allows {OVERRIDES_LENGTH - BATCHS_OWN}"
    elif size > PAYLOAD_BYTES:
        what = f"the job's request {size} bytes large, but AWS Batch allows {PAYLOAD_BYTES}"
    else:
        return
    largest = max(overrides["environment"], key=lambda item: len(item["value"]))
    raise JobRefused(
        f"env makes {what}: the largest is {largest['name']} with {len(largest['value'])} characters; pass it"
        " through a file or a bucket."
    )
