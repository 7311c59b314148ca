"""A stack's settings for a Prefect work pool, and AWS CLI commands."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.aws.account import TAG, Account, gone, rows
from infra.aws.delivery import KEY, PREFIX, address
from infra.aws.machines import MachineType
from infra.aws.settings import queue_name
from infra.aws.stack import CAPABILITIES, Stack
from infra.aws.template import BODY_BYTES


def newest_image(ecr: Any, repository_uri: str) -> str | None:
    """Return the image pushed last, by its digest."""
    name = repository_uri.partition("/")[2]
    try:
        images = rows(ecr, "describe_images", "imageDetails", repositoryName=name)
    except ClientError as error:
        if gone(error):
            return None
        raise
    tagged = [image for image in images if image.get("imageTags")]
    newest = max(tagged, key=lambda image: image["imagePushedAt"], default=None)
    return f"{repository_uri}@{newest['imageDigest']}" if newest else None


def pool_variables(stack: Stack, machines: Sequence[MachineType], image: str | None) -> dict[str, Any]:
    outputs, project = stack.outputs, stack.parameters["Project"]
    shared = {
        "region": outputs["Region"],
        "image": image,
        "job_role_arn": outputs["JobRoleArn"],
        "execution_role_arn": outputs["ExecutionRoleArn"],
        "log_group": outputs["LogGroupName"],
        "prefect_api_key_secret_arn": outputs.get("PrefectApiKeySecretArn"),
        "prefect_api_auth_string_secret_arn": outputs.get("PrefectAuthStringSecretArn"),
        "tags": {TAG: project},
    }
    present = {name: value for name, value in shared.items() if value}
    return present | queue_variables(project, usual_machine(machines))


def usual_machine(machines: Sequence[MachineType]) -> MachineType:
    return next((machine for machine in machines if not machine.gpus), machines[0])


def queue_variables(project: str, machine: MachineType, spot: bool = False) -> dict[str, Any]:
    return {"job_queue": queue_name(project, machine.name, spot), **machine.job_variables}


def filled_template(template: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Raise KeyError for an unknown variable."""
    filled: dict[str, Any] = json.loads(json.dumps(template))
    for name, value in variables.items():
        filled["variables"]["properties"][name]["default"] = value
    required = filled["variables"].get("required", [])
    filled["variables"]["required"] = [name for name in required if name not in variables]
    return filled


def pool_command(pool: str, file: Path) -> str:
    return shlex.join(
        ["prefect", "work-pool", "create", pool, "--type", "aws-batch", "--base-job-template", str(file)]
    )


def up_lines(account: Account, parameters: Mapping[str, str], creates: bool, file: Path) -> list[str]:
    project, where = parameters["Project"], ["--region", account.region]
    base = [*where, "--stack-name", project, "--change-set-name", "by-hand"]
    before, source, after = _delivery_lines(account, project, file)
    given = [
        f"ParameterKey={key},ParameterValue={value.replace(',', chr(92) + ',')}"
        for key, value in parameters.items()
    ]
    create = ["aws", "cloudformation", "create-change-set", *base]
    create += ["--change-set-type", "CREATE" if creates else "UPDATE", *source]
    create += [
        "--capabilities",
        *CAPABILITIES,
        "--tags",
        f"Key={TAG},Value={project}",
        "--parameters",
        *given,
    ]
    ready = "stack-create-complete" if creates else "stack-update-complete"
    lines = [
        *before,
        create,
        ["aws", "cloudformation", "wait", "change-set-create-complete", *base],
        *after,
        ["aws", "cloudformation", "describe-change-set", *base],
        ["aws", "cloudformation", "execute-change-set", *base],
        ["aws", "cloudformation", "wait", ready, *where, "--stack-name", project],
    ]
    return [shlex.join(line) for line in lines]


Commands = list[list[str]]


def _delivery_lines(account: Account, project: str, file: Path) -> tuple[Commands, list[str], Commands]:
    if file.stat().st_size <= BODY_BYTES:
        return [], ["--template-body", f"file://{file}"], []
    bucket, where = f"{PREFIX}-{project}-{account.number}-by-hand", ["--region", account.region]
    before = [
        ["aws", "s3", "mb", f"s3://{bucket}", *where],
        ["aws", "s3", "cp", str(file), f"s3://{bucket}/{KEY}", *where],
    ]
    source = ["--template-url", address(account.region, bucket, account.partition)]
    return before, source, [["aws", "s3", "rb", f"s3://{bucket}", "--force", *where]]


def use_lines(stack: Stack, variables: Mapping[str, Any]) -> list[str]:
    where = ["--region", variables["region"]]
    queue = ["--job-queue", variables["job_queue"]]
    lines = [
        ["aws", "batch", "submit-job", *where, *queue, "--job-name", "by-hand", "--job-definition", "NAME"],
        ["aws", "batch", "list-jobs", *where, *queue, "--job-status", "RUNNABLE"],
        ["aws", "batch", "describe-jobs", *where, "--jobs", "ID"],
        ["aws", "logs", "tail", variables["log_group"], *where, "--follow"],
        ["aws", "cloudformation", "delete-stack", *where, "--stack-name", stack.name],
    ]
    return [shlex.join(line) for line in lines]
