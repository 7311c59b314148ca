"""A job's container as ECS starts it, as options of the Docker API."""

import contextlib
import fnmatch
import os
from typing import Any

import boto3
import docker

from tests.emulators.containers import LABEL
from tests.emulators.imds import ENDPOINT_VARIABLE, metadata_server

from .control import control
from .fit import needs_of

DEFAULT_GROUP = (
    "/aws/batch/job"  # [doc] docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_logs.html
)
HOST_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")


def log_target(job, attempt) -> tuple[str | None, str]:
    """Return the attempt's log group and stream; no group if it is missing and cannot be created.

    [doc] docs.aws.amazon.com/batch/latest/userguide/using_awslogs.html: the stream is prefix/default/task.
    """
    options = (job.properties.get("logConfiguration") or {}).get("options") or {}
    group = options.get("awslogs-group", DEFAULT_GROUP)
    stream = f"{options.get('awslogs-stream-prefix', job.job_definition.name)}/default/{attempt.task}"
    if group == DEFAULT_GROUP or str(options.get("awslogs-create-group")).lower() == "true":
        job.log_backend.ensure_log_group(group)
    if group not in job.log_backend.groups:
        return None, stream
    job.log_backend.ensure_log_stream(group, stream)
    return group, stream


def container_options(job, attempt, stack: contextlib.ExitStack) -> dict[str, Any]:
    """Return the options of the Docker API; resources that live as long as the container go on the stack."""
    needs, linux = needs_of(job), job.properties.get("linuxParameters") or {}
    options: dict[str, Any] = {
        "image": control_image(job.image),
        "command": job.command or None,
        "environment": environment_of(job, attempt, stack),
        "name": f"batch-{job.job_id.replace(':', '-')}-{attempt.number}",
        "labels": {LABEL: str(os.getpid()), "batch-job": job.job_id},
        "mem_limit": f"{needs.memory_mib}m",
        "cpu_shares": int(needs.vcpus * 1024),  # ECS: shares, not a quota
        # [doc] docs.aws.amazon.com/batch/latest/userguide/networking-modes-jobs.html: ECS-EC2 simple job
        "network_mode": "host",  # also the only one in which podman 4.3's containers reach this process
        "init": bool(linux.get("initProcessEnabled")),
        "privileged": bool(job.properties.get("privileged")),
        "user": job.properties.get("user"),
        "mounts": mounts_of(job.properties),
        "ulimits": ulimits(job.properties.get("ulimits") or []),
    }
    if linux.get("sharedMemorySize"):
        options["shm_size"] = f"{linux['sharedMemorySize']}m"
    return options


def control_image(image: str) -> str:
    """Return podman's name for an image: tests map registry images to local ones."""
    found = (local for pattern, local in control.images.items() if fnmatch.fnmatchcase(image, pattern))
    return next(found, image)


def ulimits(wanted: list[dict[str, Any]]) -> list[Any]:
    """Return all limits: podman takes all from the request if one is set, and its defaults are too high here."""
    limits = dict.fromkeys(("nofile", "nproc"), (4096, 4096)) if wanted else {}
    limits |= {entry["name"]: (entry["softLimit"], entry["hardLimit"]) for entry in wanted}
    return [docker.types.Ulimit(name=name, soft=soft, hard=hard) for name, (soft, hard) in limits.items()]


def mounts_of(properties: dict[str, Any]) -> list[Any]:
    sources = {
        volume["name"]: (volume.get("host") or {}).get("sourcePath")
        for volume in properties.get("volumes") or []
    }
    return [
        docker.types.Mount(
            mount["containerPath"],
            sources[mount["sourceVolume"]],
            type="bind",
            read_only=bool(mount.get("readOnly")),
        )
        for mount in properties.get("mountPoints") or []
    ]


def environment_of(job, attempt, stack: contextlib.ExitStack) -> dict[str, str]:
    """Return the job's variables, Batch's own, and those that point AWS's SDK to this emulator.

    [doc] docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html
    """
    variables = {name: os.environ[name] for name in HOST_VARIABLES if name in os.environ}
    if not control.hide_metadata:
        metadata = stack.enter_context(metadata_server())
        metadata.answers.update(truth_about(job, attempt) | control.metadata)
        variables[ENDPOINT_VARIABLE] = metadata.url
    variables |= control.container_environment | secrets_of(job.properties) | job.environment
    return variables | batch_variables(job, attempt)


def batch_variables(job, attempt) -> dict[str, str]:
    return {
        "AWS_BATCH_JOB_ID": job.job_id,
        "AWS_BATCH_JOB_ATTEMPT": str(attempt.number),
        "AWS_BATCH_JQ_NAME": job.job_queue.name,
        "AWS_BATCH_CE_NAME": attempt.place.environment.name,
    }


def secrets_of(properties: dict[str, Any]) -> dict[str, str]:
    """[doc] docs.aws.amazon.com/batch/latest/userguide/specifying-sensitive-data.html: by ARN, never in DescribeJobs."""
    wanted = properties.get("secrets") or []
    client = boto3.client("secretsmanager") if wanted else None
    return {
        entry["name"]: client.get_secret_value(SecretId=entry["valueFrom"])["SecretString"]
        for entry in wanted
    }


def truth_about(job, attempt) -> dict[str, str]:
    spot = "SPOT" in (attempt.place.environment.compute_resources or {}).get("type", "")
    return {
        "instance-type": attempt.place.instance_type,
        "instance-id": attempt.place.instance_id,
        "instance-life-cycle": "spot" if spot else "on-demand",
        "placement/availability-zone": f"{job.backend.region_name}a",
        "placement/region": job.backend.region_name,
    }
