"""The wheels in a clean environment, with a real Prefect server and real containers."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import uuid
import zipfile

import pytest
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.objects import WorkPoolStorageConfiguration

from infra.workers.distributions.layout import DISTRIBUTIONS, sources
from tests.emulators.slurm.cluster import cluster
from tests.emulators.slurm.python import with_torch
from tests.infra.workers.ad_hoc.conftest import Backend
from tests.infra.workers.distributions.clean import ROOT, brand_of
from tests.infra.workers.distributions.cloud.conftest import STEPS
from tests.infra.workers.worker_prefect import WITHIN_S, Pool

pytestmark = pytest.mark.timeout(1800)

SSH, _ = DISTRIBUTIONS
HELLO = "Hello from the container!"
REGISTERED = """
from prefect.plugins import load_prefect_collections
from prefect.workers.base import BaseWorker
loaded = load_prefect_collections()
assert {package!r} in loaded and {entry!r} in loaded, loaded
assert not [each for each in loaded.values() if isinstance(each, Exception)], loaded
print(BaseWorker.get_worker_class_from_type({kind!r}).__module__)
"""


def test_a_wheel_has_one_top_package_and_all_of_its_files(installed):
    names = zipfile.ZipFile(installed.wheel).namelist()
    version = installed.wheel.name.split("-")[1]
    package = installed.distribution.package
    assert {name.partition("/")[0] for name in names} == {package, f"{package}-{version}.dist-info"}
    archive = zipfile.ZipFile(installed.wheel)
    for name, path in sources(installed.distribution).items():
        assert archive.read(f"{package}/{name}") == path.read_bytes(), name


def test_the_tests_of_a_source_distribution_pass_against_the_installed_wheel(installed, tmp_path):
    with tarfile.open(installed.sdist) as archive:
        members = [
            each for each in archive if "/tests/" in each.name or each.name.endswith("/pyproject.toml")
        ]
        archive.extractall(tmp_path, members, filter="data")
    (project,) = tmp_path.iterdir()
    python = str(installed.clean.bin / "python")
    where = f"import {installed.distribution.package} as it; print(it.__file__)"
    assert str(installed.clean.folder) in installed.clean.run(python, "-P", "-c", where, cwd=project)
    told = installed.clean.run(python, "-P", "-m", "pytest", "-q", cwd=project)
    assert " passed" in told


def test_beside_this_repository_its_worker_makes_way_in_silence(installed, tmp_path):
    """Gridbench's lanes keep Gridbench's worker, whichever package is loaded first."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*pip, str(installed.wheel)], check=True)
    kind = installed.kind
    script = REGISTERED.format(
        package=installed.distribution.package, entry=kind.type.replace("-", "_"), kind=kind.type
    )
    for first in ("", f"import {installed.distribution.package}\n", f"import {kind.__module__}\n"):
        done = subprocess.run(
            [sys.executable, "-W", "error:Type:UserWarning", "-c", first + script],
            env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.stdout.split() == [kind.__module__], done.stdout + done.stderr


async def logged(pool, run_id, text, within_s=60):
    """Return a run's log once it has a line, which can come after the run's end."""
    deadline = time.monotonic() + within_s
    while text not in (lines := [line.message for line in await pool.logs(run_id)]):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(0.5)
    return lines


@pytest.fixture
async def pool(installed, variables, prefect):
    """Make a work pool as a user does, except for the storage of bundles: Prefect's command knows clouds alone."""
    name = f"{installed.distribution.folder}-{uuid.uuid4().hex[:6]}"
    installed.clean.prefect("work-pool", "create", name, "--type", installed.kind.type)
    here, there = {}, {}
    if mounts := variables.get("mounts"):
        here["folder"], there["folder"] = mounts[0].split(":")
    storage = WorkPoolStorageConfiguration(
        bundle_upload_step={STEPS: {"do": "upload"} | here},
        bundle_execution_step={STEPS: {"do": "execute"} | there},
    )
    async with prefect.client() as client:
        await client.update_work_pool(name, WorkPoolUpdate(storage_configuration=storage))
        template = (await client.read_work_pool(name)).base_job_template
    assert "gridbench" not in json.dumps(template).lower()
    return Pool(prefect, name, None, installed.kind)


async def test_a_deployed_flow_outlives_a_restart_of_the_worker(installed, pool, variables, image, prefect):
    clean, follows = installed.clean, f"follows {installed.kind.thing} "
    clean.python("hello.py", pool.name, image, json.dumps(variables))
    worker = clean.worker(pool.name)
    try:
        clean.prefect("deployment", "run", "hello/hello", "--param", "wait=true")
        run_id = await Backend(pool, "python").only_run()
        job_id = (await pool.until(run_id, lambda run: run.state.is_running())).infrastructure_pid
        worker.kill()
        worker.wait()
        worker = clean.worker(pool.name)
        deadline = time.monotonic() + WITHIN_S
        while not [line for line in await pool.logs(run_id) if follows in line.message]:
            assert time.monotonic() < deadline, (clean.folder / "worker.log").read_text()[-3000:]
        async with prefect.client() as client:
            await client.update_flow_run_labels(run_id, {"go": True})
        state = await pool.end(run_id)
        lines = await logged(pool, run_id, HELLO)
    finally:
        worker.kill()
        worker.wait()
    assert state.name == "Completed", state.message
    assert HELLO in lines
    run = await pool.run(run_id)
    assert run.infrastructure_pid == job_id
    assert not [label for label in run.labels if "gridbench" in label]
    assert f"{brand_of(installed.distribution).name}.explained_within_s" in run.labels


@pytest.mark.parametrize("installed", [SSH], indirect=True, ids=[SSH.name])
async def test_a_flow_runs_without_a_container_over_the_python_of_its_box(installed, pool, variables):
    code, _ = variables["mounts"][0].split(":")
    asked = {name: variables[name] for name in ("hosts", "least_free_mib", "wait_s")}
    await says_hello(installed.clean, pool, code, asked | {"python": sys.executable})


@pytest.mark.chaos  # `make test` installs no Slurm
@pytest.mark.parametrize("installed", [SSH], indirect=True, ids=[SSH.name])
async def test_a_flow_runs_as_a_job_of_slurm(installed, pool):
    with cluster() as slurm:
        (slurm.folder / "code").mkdir()
        asked = {"hosts": [slurm.host], "python": str(with_torch(slurm.folder)), "least_free_mib": 1}
        asked |= {"scheduler": "slurm", "slurm": {"exclusive": False, "cpus": 1}}
        asked |= {"memory_mib": 1000, "timeout_s": 240, "wait_s": 120}
        asked |= {"command": "python -m prefect flow-run execute"}  # it has no program of that name
        await says_hello(installed.clean, pool, slurm.folder / "code", asked)
        slurm.until(lambda: slurm.jobs() == [])


async def says_hello(clean, pool, code, variables):
    """Deploy code in a folder of the machine, and assert that it runs without a container."""
    shutil.copy(clean.flows / "hello.py", code)
    clean.python(
        "deploy_code.py", pool.name, str(code), json.dumps(variables | {"container_command": "none"})
    )
    worker = clean.worker(pool.name)
    try:
        clean.prefect("deployment", "run", "hello/hello")
        run_id = await Backend(pool, "python").only_run()
        state = await pool.end(run_id)
        lines = await logged(pool, run_id, HELLO)
    finally:
        worker.kill()
        worker.wait()
    assert state.name == "Completed", (state.message, lines)
    assert HELLO in lines


async def test_a_decorated_flow_runs_without_a_deployment(installed, pool, variables, image, prefect):
    package, name = installed.distribution.package, installed.kind.type.replace("-", "_")
    asked = json.dumps(variables | {"image": image})
    told = installed.clean.python("ad_hoc.py", f"{package}.decorators", name, pool.name, asked)
    assert told.split()[-1] == "Completed"
    run = await pool.run(await Backend(pool, "python").only_run())
    assert run.deployment_id is None
    assert "the sum is 5" in [line.message for line in await pool.logs(run.id)]
