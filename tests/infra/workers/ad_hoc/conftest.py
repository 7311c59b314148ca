import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.objects import WorkPoolStorageConfiguration

from tests.emulators import containers
from tests.emulators.boxes import boxes
from tests.emulators.kube.server import kube
from tests.infra.workers.ad_hoc import bundle_in_api
from tests.infra.workers.ad_hoc.submit import KINDS, ROOT
from tests.infra.workers.worker_prefect import Pool

STEPS = bundle_in_api.__name__
RECIPE = """
FROM {image}
COPY bundle_in_api.py /opt/gridbench/tests/infra/workers/ad_hoc/
USER root
RUN touch /opt/gridbench/tests/__init__.py  # gpuhunt installs a package of this name, which would come first
USER gridbench
"""
FAST = {
    "AWS_BATCH_WORKER_POLL_S": "0.5",
    "KUBERNETES_JOBS_WORKER_POLL_S": "0.5",
    "SSH_WORKER_POLL_S": "0.5",
    "PREFECT_WORKER_HEARTBEAT_SECONDS": "2",  # so that a killed one counts as gone soon
}


@dataclass
class Backend:
    pool: Pool
    python: str

    async def runs(self):
        async with self.pool.prefect.client() as client:
            name = WorkPoolFilterName(any_=[self.pool.name])
            return await client.read_flow_runs(work_pool_filter=WorkPoolFilter(name=name))

    async def only_run(self):
        deadline = time.monotonic() + 240
        while not (runs := await self.runs()):
            assert time.monotonic() < deadline, "no run"
            await asyncio.sleep(0.5)
        (run,) = runs
        return run.id


@pytest.fixture
def image(bench_image):
    """The image built here, with the step that executes a bundle."""
    name = "localhost/gridbench-ad-hoc:test"
    subprocess.run(
        [
            "podman",
            "build",
            "--quiet",
            "--tag",
            name,
            "--file",
            "-",
            str(Path(bundle_in_api.__file__).parent),
        ],
        input=RECIPE.format(image=bench_image),
        text=True,
        check=True,
        capture_output=True,
        env=containers.environment(),
    )
    return name


@pytest.fixture
def batch_variables(batch_queue, image):
    return {"job_queue": batch_queue("g5.xlarge"), "image": image, "region": "us-east-1"}


@pytest.fixture
def kubernetes_variables(tmp_path, monkeypatch):
    with kube() as cluster:
        config = cluster.kubeconfig(tmp_path / "kubeconfig")
        location = "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
        monkeypatch.setattr(location, str(config))
        monkeypatch.setenv("KUBECONFIG", str(config))
        env = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path / "prefect-home")}
        yield {"namespace": "bench", "image": "any:1", "env": env, "memory_mib": 512, "vcpus": 0.1}


@pytest.fixture
def ssh_variables(image):
    with boxes(1) as (box,):
        mounts = [f"{bundles_of(box)}:/bundles"]
        yield {"hosts": [box.host], "image": image, "least_free_mib": 1, "wait_s": 120, "mounts": mounts}


def bundles_of(box):
    folder = box.folder / "bundles"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(params=["aws-batch", "kubernetes-jobs", "ssh"])
async def backend(request, prefect, monkeypatch):
    for name, value in FAST.items():
        monkeypatch.setenv(name, value)
    for name, value in (prefect.environment | {"PYTHONPATH": str(ROOT)}).items():
        monkeypatch.setenv(name, value)  # of the upload, a separate process
    kind = request.param
    variables = request.getfixturevalue(f"{kind.partition('-')[0].replace('aws', 'batch')}_variables")
    with prefect.settings():
        pool = await Pool.make(prefect, KINDS[kind])
        template = KINDS[kind].get_default_base_job_template()
        for field, value in variables.items():
            template["variables"]["properties"][field]["default"] = value
        here, there = {}, {}
        if mounts := variables.get("mounts"):
            here["folder"], there["folder"] = mounts[0].split(":")
        storage = WorkPoolStorageConfiguration(
            bundle_upload_step={STEPS: {"do": "upload"} | here},
            bundle_execution_step={STEPS: {"do": "execute"} | there},
        )
        async with prefect.client() as client:
            update = WorkPoolUpdate(base_job_template=template, storage_configuration=storage)
            await client.update_work_pool(pool.name, update)
        yield Backend(pool, sys.executable if kind == "kubernetes-jobs" else "python")
