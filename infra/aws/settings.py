"""Options of a stack, and the template's parameters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.aws.errors import AwsError
from infra.aws.machines import MachineType, check_cap, check_family

INSTANCES = ("g4dn.xlarge", "g5.xlarge", "g5.8xlarge", "g6.xlarge", "c5.2xlarge", "m5.2xlarge", "r5.4xlarge")
FIRST = {  # the values of a new stack; the template's own defaults
    "MaxGpuVcpus": "32",
    "MaxCpuVcpus": "16",
    "PrefectApiPort": "443",
    "PrefectApiKeySecretArn": "",
    "PrefectAuthStringSecretArn": "",
    "LogRetentionDays": "30",
    "BudgetEmail": "",
    "MonthlyBudgetUsd": "50",
}
PROJECT = re.compile(r"[a-z][a-z0-9-]{0,19}[a-z0-9]")  # ECR takes no dash before a slash
INSTANCE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
SECRET = re.compile(r"arn:[a-z-]+:secretsmanager:([a-z0-9-]+):[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+")
LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 180, 365)
MOST_TYPES = 25  # two queues each, and AWS Batch has 50 for an account and region (its quota, not adjustable)


@dataclass(frozen=True, slots=True)
class StackOptions:
    """The user's options; None keeps the present value, or the default of a new stack.

    Empty secrets and e-mail address mean none; `budget_usd` is a month's, of the whole account.
    """

    project: str
    instances: tuple[str, ...] | None = None
    max_gpu_vcpus: int | None = None
    max_cpu_vcpus: int | None = None
    prefect_port: int | None = None
    secret_arn: str | None = None
    auth_secret_arn: str | None = None
    email: str | None = None
    budget_usd: int | None = None
    log_days: int | None = None


def check_project(project: str) -> None:
    """Raise `AwsError` for a name that some AWS service refuses."""
    if not PROJECT.fullmatch(project):
        raise AwsError(
            f"project {project!r} must be 2 to 21 small letters, digits and dashes, begin with a letter and "
            "not end with a dash"
            + (f", such as {project.lower()!r}" if PROJECT.fullmatch(project.lower()) else "")
        )


def check(wishes: StackOptions, region: str) -> None:
    check_project(wishes.project)
    _check_instances(wishes.instances)
    for option, value in (
        ("--max-gpu-vcpus", wishes.max_gpu_vcpus),
        ("--max-cpu-vcpus", wishes.max_cpu_vcpus),
    ):
        if value is not None and value < 1:
            raise AwsError(f"{option} is {value}: at least 1 is needed")
    if wishes.prefect_port is not None and not 1 <= wishes.prefect_port <= 65535:
        raise AwsError(f"--prefect-port is {wishes.prefect_port}: ports are 1 to 65535")
    if wishes.email and not EMAIL.fullmatch(wishes.email):
        raise AwsError(f"--email {wishes.email!r} must be an address such as you@example.com")
    if wishes.budget_usd is not None and wishes.budget_usd < 1:
        raise AwsError(f"--budget-usd is {wishes.budget_usd}: at least 1 USD a month is needed")
    if wishes.log_days is not None and wishes.log_days not in LOG_DAYS:
        raise AwsError(
            f"--log-days is {wishes.log_days}: AWS keeps logs for one of {', '.join(map(str, LOG_DAYS))}"
        )
    _check_secret("--secret", wishes.secret_arn, region)
    _check_secret("--auth-secret", wishes.auth_secret_arn, region)


def _check_instances(names: Sequence[str] | None) -> None:
    if names is None:
        return
    if not names:
        raise AwsError("--instances is empty: name at least one type, such as c5.2xlarge")
    if len(names) > MOST_TYPES:
        raise AwsError(
            f"--instances has {len(names)} types: AWS Batch has queues for {MOST_TYPES} in a region"
        )
    for name in names:
        if not INSTANCE.fullmatch(name):
            raise AwsError(f"instance type {name!r} must be a family and a size, such as g5.xlarge")
        if list(names).count(name) > 1:
            raise AwsError(f"instance type {name} is named twice")
        check_family(name)


def _check_secret(option: str, arn: str | None, region: str) -> None:
    if not arn:
        return
    match = SECRET.fullmatch(arn)
    if not match:  # it can be the key itself, so it is not repeated
        shape = "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME"
        raise AwsError(f"{option} must be the ARN of a secret, such as {shape}; never the key itself")
    if match[1] != region:
        raise AwsError(f"{option} is in {match[1]}, the stack in {region}: containers can't read it there")


def parameters(
    wishes: StackOptions,
    machines: Sequence[MachineType],
    zones: tuple[str, str],
    previous: Mapping[str, str],
    bucket: str = "",
) -> dict[str, str]:
    """Return the template's parameters: from options, else stack, else defaults."""
    wished = {
        "MaxGpuVcpus": wishes.max_gpu_vcpus,
        "MaxCpuVcpus": wishes.max_cpu_vcpus,
        "PrefectApiPort": wishes.prefect_port,
        "PrefectApiKeySecretArn": wishes.secret_arn,
        "PrefectAuthStringSecretArn": wishes.auth_secret_arn,
        "BudgetEmail": wishes.email,
        "MonthlyBudgetUsd": wishes.budget_usd,
        "LogRetentionDays": wishes.log_days,
    }
    values = FIRST | {
        "Project": wishes.project,
        "ZoneA": zones[0],
        "ZoneB": zones[1],
        "ExistingResultsBucket": bucket,
    }
    kept = {name: previous[name] for name in (*wished, "ExistingResultsBucket") if name in previous}
    values |= kept | {name: str(value) for name, value in wished.items() if value is not None}
    check_cap([it for it in machines if it.gpus], int(values["MaxGpuVcpus"]), "--max-gpu-vcpus")
    check_cap([it for it in machines if not it.gpus], int(values["MaxCpuVcpus"]), "--max-cpu-vcpus")
    return values


def instances_of(outputs: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, outputs.get("InstanceTypes", "").split(",")))


def queue_name(project: str, instance: str, spot: bool = False) -> str:
    return f"{project}-{instance.replace('.', '-')}{'-spot' if spot else ''}"
