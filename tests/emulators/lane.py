"""Lanes on emulators: the work pool of AWS Batch, a worker, and the image with a test's own workloads."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectAlreadyExists

from infra.local.access import auth_string
from infra.workers.batch.worker import AwsBatchWorker
from tests.emulators import containers

if TYPE_CHECKING:
    from tests.emulators.fixtures import Aws

ROLE = "arn:aws:iam::123456789012:role/gridbench-execution"
LOG_GROUP = "/gridbench/lanes"
STOP_S = 30
RECIPE = """
FROM {image}
COPY {name} /opt/measured/{name}
ENV GRIDBENCH_WORKLOADS=/opt/measured
"""


def with_workload(image: str, workload: Path) -> str:
    recipe = RECIPE.format(image=image, name=workload.name)
    content = hashlib.sha256(recipe.encode() + workload.read_bytes()).hexdigest()[:12]
    name = f"localhost/gridbench-{workload.stem}:{content}"
    command = ["podman", "build", "--quiet", "--tag", name, "--file", "-", str(workload.parent)]
    env = containers.environment()
    subprocess.run(command, input=recipe, text=True, check=True, env=env, capture_output=True)
    return name


def auth_secret(aws: "Aws", state: Path) -> str:
    """Keep the auth string of a stack in the account; return the secret's ARN."""
    made = aws.client("secretsmanager").create_secret(Name="prefect-auth", SecretString=auth_string(state))
    return str(made["ARN"])


async def make_pool(
    client: PrefectClient, image: str | None = None, name: str = "aws-batch", auth_arn: str | None = None
) -> None:
    """Make the work pool with the defaults of `gridbench up aws`; the auth string is in a secret."""
    template = AwsBatchWorker.get_default_base_job_template()
    chosen = {"image": image, "region": "us-east-1", "log_group": LOG_GROUP}
    chosen |= {"prefect_api_auth_string_secret_arn": auth_arn, "execution_role_arn": ROLE}
    for field, value in chosen.items():
        template["variables"]["properties"][field]["default"] = value
    try:
        await client.create_work_pool(WorkPoolCreate(name=name, type="aws-batch", base_job_template=template))
    except ObjectAlreadyExists:  # of another test's account, whose secret is gone
        await client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))


@contextmanager
def worker(
    settings: Mapping[str, str], log: Path, pool: str = "aws-batch", kind: str = "aws-batch"
) -> Iterator[subprocess.Popen]:
    """Run a worker of the pool; one of AWS Batch polls twice a second."""
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--type", kind]
    env = os.environ | dict(settings) | {"AWS_BATCH_WORKER_POLL_S": "0.5"}
    with log.open("wb") as out, subprocess.Popen(command, env=env, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_S)
            finally:
                process.kill()
