"""Cost of a cell on an AWS Batch lane, with 1 and with 10 cells a job, over the same cells in a container.

AWS is emulated: a job starts a container, without an instance's boot or an image's pull.
"""

import asyncio
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from gridbench.run.session import deploy
from infra.local.stack import LocalStack
from tests.benchmarks.stack import run, stack
from tests.emulators import containers, fixtures, images
from tests.emulators.lane import LOG_GROUP, auth_secret, make_pool, with_workload, worker
from tests.emulators.prefect_api import client_of

CELLS = 10
NAPS = Path(__file__).parents[1] / "flows" / "workloads"
SUITE = f"""
title = "{CELLS} naps"
repeats = 1
quick = true
[[cases]]
workload = "nap"
size = {{ ms = {list(range(1, CELLS + 1))} }}
"""
QUEUE = "lane"
MACHINE = """
title: An emulated machine that takes {cells} cells a job
pool: aws-batch
device: cpu
threads: 1
cells_per_job: {cells}
price: {{usd_per_hour: 0, purchase: assumption, source: a benchmark, date: 2026-01-01}}
job_variables: {{job_queue: lane, vcpus: 2, memory_mib: 3000, shared_memory_mib: 256}}
"""


def bare_s(image: str) -> float:
    suite = Path(os.environ["GRIDBENCH_DEPLOYMENTS"]) / "suites" / "naps.toml"
    started = time.perf_counter()
    mount = f"{suite}:/tmp/{suite.name}:ro"
    measure = [
        "python",
        "-m",
        "workloads",
        "suite",
        f"/tmp/{suite.name}",
        "--threads",
        "1",
        "--out",
        "/tmp/out",
    ]
    containers.podman("run", "--rm", "--network", "host", "--volume", mount, image, *measure, check=False)
    return time.perf_counter() - started


def main() -> None:
    """Print seconds a cell of both kinds of jobs, as ratios to the bare cells."""
    with ExitStack() as held:
        files = {f"hardware/cells-{n}.yaml": MACHINE.format(cells=n) for n in (1, CELLS)}
        up = held.enter_context(stack(workloads=NAPS, files=files | {"suites/naps.toml": SUITE}))
        os.environ["DOCKER_HOST"] = held.enter_context(containers.docker_socket())
        aws = held.enter_context(fixtures.emulated_aws())
        held.enter_context(fixtures.environment(**aws.environment))
        image = with_workload(images.built(containers.base_image()), NAPS / "nap.py")
        fixtures.make_queue(aws, "c5.2xlarge", name=QUEUE)
        aws.client("logs").create_log_group(logGroupName=LOG_GROUP)
        asyncio.run(_pool(up, image, auth_secret(aws, up.state)))
        deploy(False, up.environment, "aws-batch")
        log = Path(held.enter_context(tempfile.TemporaryDirectory())) / "worker.log"
        held.enter_context(worker(up.environment, log))
        first_s = bare_s(image)
        ran = {cells: run(up, "naps", [f"cells-{cells}"]).wall_s for cells in (1, CELLS)}
        base_s = (first_s + bare_s(image)) / 2
    for cells, wall_s in ran.items():
        print(
            f"lane on AWS Batch, {cells} cells a job: {wall_s / CELLS:.2f} s a cell, "
            f"{wall_s / base_s:.2f} of the {base_s / CELLS:.2f} s that it takes bare"
        )


async def _pool(up: LocalStack, image: str, auth_arn: str) -> None:
    async with client_of(up.api_url, up.state) as client:
        await make_pool(client, image, auth_arn=auth_arn)
