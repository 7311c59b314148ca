"""An emulated AWS account, an emulated cluster and an SSH box for lanes of one Prefect server."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from prefect.client.schemas.actions import WorkPoolCreate

from gridbench.run.session import deploy
from infra.workers.ssh.worker import SshWorker
from tests.emulators import containers
from tests.emulators.boxes import boxes
from tests.emulators.lane import worker
from tests.flows.batch.conftest import cloud, image
from tests.flows.gke.conftest import cluster

__all__ = ["cloud", "cluster", "image"]
BOX = """
title: A box with containers
pool: ssh
box: emulator
device: cpu
threads: 1
price: {{usd_per_hour: 1.0, purchase: assumption, source: a test, date: 2026-11-25}}
start_within_s: 400
job_variables:
  hosts: [{host}]
  image: {image}
  pull: never
  shared_memory_mib: 256
  timeout_s: 600
"""
# The image of a user: it has Python and packages, and none of our code.
FOREIGN = """
FROM {image}
USER root
RUN rm -rf /opt/gridbench
ENV PYTHONPATH= GRIDBENCH_COMMIT= GRIDBENCH_WORKLOADS= UV_OFFLINE=1
WORKDIR /tmp
ENTRYPOINT []
USER gridbench
"""


@pytest.fixture
async def box(bench, image, tmp_path):
    """A box in the hardware file ssh-box, its work pool, and a worker."""
    with boxes() as (made,):
        hardware = Path(bench.environment["GRIDBENCH_DEPLOYMENTS"]) / "hardware/ssh-box.yaml"
        hardware.write_text(BOX.format(host=json.dumps(made.host), image=image))
        template = SshWorker.get_default_base_job_template()
        async with bench.client() as client:
            pool = WorkPoolCreate(name="ssh", type="ssh", base_job_template=template)
            await client.create_work_pool(pool, overwrite=True)
        await asyncio.to_thread(deploy, False, bench.stack.environment, "ssh")
        with worker(bench.stack.environment, tmp_path / "ssh.log", "ssh", "ssh"):
            yield made


@pytest.fixture(scope="module")
def foreign(image):
    name = f"{image.rpartition(':')[0]}-foreign:{image.rpartition(':')[2]}"
    command = ["podman", "build", "--quiet", "--tag", name, "--file", "-", "."]
    recipe, env = FOREIGN.format(image=image), containers.environment()
    subprocess.run(command, input=recipe, text=True, check=True, env=env, capture_output=True)
    return name
