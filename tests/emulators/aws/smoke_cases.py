"""Jobs of the smoke test, one for each kind of end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BAD_IMAGE = "public.ecr.aws/docker/library/gridbench-has-no-such-image:none"
TIMEOUT_S = 60  # the least that Batch takes
PATIENCE_S = 600
TERMINATED = "ended by the smoke test"
PREFIX = "prefect-smoke"  # the worker's policy allows definitions that begin with prefect-


@dataclass(frozen=True, slots=True)
class Case:
    """A small job and the emulator's name of its end.

    Attributes:
        believed: its statusReason in tests/emulators/aws/reasons.py, by name, and its container's reason.
        words: its statusReason if it is the text given to TerminateJob.
        terminate: the state in which it is terminated.
        plan: the value of a variable that the submission overrides.
        stuck: it never starts; its statusReason while it waits counts.
    """

    name: str
    command: tuple[str, ...]
    image: str
    status: str
    believed: tuple[str, str | None]
    exit_code: int | None = None
    memory_mib: int = 256
    vcpus: int = 1
    timeout_s: int = PATIENCE_S
    terminate: str | None = None
    words: str = ""
    stuck: bool = False
    plan: str = ""


def python(code: str) -> tuple[str, ...]:
    return ("python3", "-c", code)


# Asks the metadata service, with a token and through the container's network, which machine it is on.
WHICH_MACHINE = """
import os, urllib.request as web
base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/") + "/latest/"
head = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
token = web.urlopen(web.Request(base + "api/token", headers=head, method="PUT"), timeout=5).read().decode()
head = {"X-aws-ec2-metadata-token": token}
kind = web.urlopen(web.Request(base + "meta-data/instance-type", headers=head), timeout=5).read().decode()
print(kind)
assert "." in kind
"""


def cases(image: str) -> list[Case]:
    exited = ("ESSENTIAL_EXITED", None)
    hungry = python("x = b'x' * 2**30; print(len(x))")
    asleep = python("import time; time.sleep(300)")
    return [
        Case("ok", python("print('ok')"), image, "SUCCEEDED", exited, 0),
        Case("metadata", python(WHICH_MACHINE), image, "SUCCEEDED", exited, 0),
        Case("exit_3", python("raise SystemExit(3)"), image, "FAILED", exited, 3),
        Case("out_of_memory", hungry, image, "FAILED", ("ESSENTIAL_EXITED", "OUT_OF_MEMORY"), 137),
        Case("too_long", ("true",), image, "FAILED", ("OVERRIDES_TOO_LONG", None), plan="x" * 8192),
        Case("bad_image", ("true",), BAD_IMAGE, "FAILED", ("TASK_FAILED_TO_START", "CANNOT_PULL")),
        Case("timeout", asleep, image, "FAILED", ("TIMED_OUT", None), 137, timeout_s=TIMEOUT_S),
        Case("terminated", asleep, image, "FAILED", ("", None), 137, terminate="RUNNING", words=TERMINATED),
        Case(
            "too_large", ("true",), image, "RUNNABLE", ("RESOURCE_REQUIREMENT", None), vcpus=1000, stuck=True
        ),
    ]


def definition(case: Case, queue: str, outputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the RegisterJobDefinition request of a case, with the stack's roles and the worker's naming."""
    needs = [{"type": "VCPU", "value": str(case.vcpus)}, {"type": "MEMORY", "value": str(case.memory_mib)}]
    options = {"awslogs-group": outputs["LogGroupName"], "awslogs-stream-prefix": "smoke"}
    return {
        "jobDefinitionName": f"{PREFIX}-{queue}-{case.name}",
        "type": "container",
        "platformCapabilities": ["EC2"],
        "retryStrategy": {"attempts": 1},
        "containerProperties": {
            "image": case.image,
            "command": list(case.command),
            "resourceRequirements": needs,
            "executionRoleArn": outputs["ExecutionRoleArn"],
            "jobRoleArn": outputs["JobRoleArn"],
            "logConfiguration": {"logDriver": "awslogs", "options": options},
        },
    }
