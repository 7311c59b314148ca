"""A stack's settings for a Prefect work pool, and the same steps as AWS CLI commands."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.aws.account import TAG, gone, rows
from infra.aws.machines import MachineType
from infra.aws.settings import TEMPLATE, queue_name
from infra.aws.stack import CAPABILITIES, Stack


def newest_image(ecr: Any, repository_uri: str) -> str | None:
    """Return the image that was pushed last, by its digest; None if there is none."""
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
    """Return the job variables of the whole pool: those that all queues share, and the first queue's own."""
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
    return present | queue_variables(project, machines[0])


def queue_variables(project: str, machine: MachineType, spot: bool = False) -> dict[str, Any]:
    """Return the job variables that differ from queue to queue: they go into a hardware file."""
    return {"job_queue": queue_name(project, machine.name, spot), **machine.job_variables}


def filled_template(template: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a base job template with these values as its defaults.

    Raises:
        KeyError: the template has no such variable.
    """
    filled: dict[str, Any] = json.loads(json.dumps(template))
    for name, value in variables.items():
        filled["variables"]["properties"][name]["default"] = value
    required = filled["variables"].get("required", [])
    filled["variables"]["required"] = [name for name in required if name not in variables]
    return filled


def pool_command(pool: str, file: Path) -> str:
    """Return the command that makes the work pool from a base job template."""
    return shlex.join(
        ["prefect", "work-pool", "create", pool, "--type", "aws-batch", "--base-job-template", str(file)]
    )


def up_lines(region: str, name: str, parameters: Mapping[str, str], creates: bool) -> list[str]:
    """Return the AWS CLI commands that do the same as `up`."""
    base = ["--region", region, "--stack-name", name, "--change-set-name", "by-hand"]
    given = [
        f"ParameterKey={key},ParameterValue={value.replace(',', chr(92) + ',')}"
        for key, value in parameters.items()
    ]
    create = ["aws", "cloudformation", "create-change-set", *base]
    create += ["--change-set-type", "CREATE" if creates else "UPDATE"]
    create += ["--template-body", f"file://{TEMPLATE}", "--capabilities", *CAPABILITIES]
    create += ["--tags", f"Key={TAG},Value={parameters['Project']}", "--parameters", *given]
    ready = "stack-create-complete" if creates else "stack-update-complete"
    lines = [
        create,
        ["aws", "cloudformation", "wait", "change-set-create-complete", *base],
        ["aws", "cloudformation", "describe-change-set", *base],
        ["aws", "cloudformation", "execute-change-set", *base],
        ["aws", "cloudformation", "wait", ready, "--region", region, "--stack-name", name],
    ]
    return [shlex.join(line) for line in lines]


def use_lines(stack: Stack, variables: Mapping[str, Any]) -> list[str]:
    """Return the AWS CLI commands to submit a job, see its state and its log, and delete the stack."""
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
