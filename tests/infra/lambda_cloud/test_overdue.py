import contextlib
import dataclasses
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, files, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from infra.lambda_cloud.errors import KeyRefused
from infra.lambda_cloud.janitor import sweep_overdue
from infra.lambda_cloud.lease import new_lease
from tests.emulators.lambda_cloud.quick import PACE, PUBLIC_KEY, request

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / "deployments/sweep/github-actions.yaml"


@pytest.fixture(autouse=True)
def key(cloud, monkeypatch):
    monkeypatch.setenv("LAMBDA_API_KEY", cloud.control.key)
    monkeypatch.setenv("LAMBDA_API_URL", cloud.url)


@pytest.fixture
async def launch(api):
    async def launch(until):
        lease = new_lease("run-1", "lambda-1x-a10", until, 1.29)
        await api.add_ssh_key(lease.name, PUBLIC_KEY)
        return await api.launch(request(lease.name, lease.name, tags=lease.tags))

    return launch


async def test_a_sweep_with_nothing_overdue_takes_three_calls(cloud, launch):
    await launch(datetime.now(UTC) + timedelta(hours=1))
    cloud.control.calls.clear()
    await sweep_overdue(print, PACE)
    assert [call.operation for call in cloud.control.calls] == [
        "listInstances",
        "listInstances",
        "listSSHKeys",
    ]


async def test_an_overdue_box_is_returned_and_reported(cloud, launch):
    late, fresh = [await launch(datetime.now(UTC) + timedelta(hours=h)) for h in (-0.5, 1)]
    said = []
    await sweep_overdue(said.append, PACE)
    assert [instance.id for instance in cloud.account.running()] == [fresh]
    assert len(said) == 1 and late in said[0]


async def test_an_api_that_is_away_is_reported_and_a_refused_key_is_an_error(cloud, monkeypatch):
    said, pace = [], dataclasses.replace(PACE, patience_s=0.05)
    cloud.control.fault(answer="server_error", limit=100)
    await sweep_overdue(said.append, pace)
    assert said[0].startswith("could not check for overdue machines at Lambda Cloud: listing instances")
    cloud.control.call_faults.clear()
    monkeypatch.setenv("LAMBDA_API_KEY", "another")
    with pytest.raises(KeyRefused):
        await sweep_overdue(said.append, pace)


async def test_an_overdue_box_that_does_not_end_is_reported_as_an_error(cloud, launch):
    late = await launch(datetime.now(UTC) - timedelta(hours=1))
    cloud.control.deaf = 10**9
    said = []
    await sweep_overdue(said.append, dataclasses.replace(PACE, return_s=0.05))
    assert said[-1].startswith(f"error: instance {late} could not be returned")


def steps():
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["sweep"]
    assert job["timeout-minutes"] <= 20
    return job["steps"]


async def test_the_example_for_another_host_ends_an_overdue_box(cloud, launch):
    late = await launch(datetime.now(UTC) - timedelta(hours=1))
    (step,) = [step for step in steps() if "LAMBDA_API_KEY" in step.get("env", {})]
    words = [sys.executable, *step["run"].split()[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0 and late in done.stdout, done.stderr
    assert cloud.account.running() == []


IMPORTED = """
import sys
import sysconfig
sysconfig.get_config_vars()  # the standard library makes a module for them
before = set(sys.modules)
import infra.lambda_cloud.__main__
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*names - sys.stdlib_module_names - {"infra"})
"""


def needed(names):
    found, todo = set(), [*names]
    while todo:
        name = todo.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            with contextlib.suppress(PackageNotFoundError):  # needed on other Pythons or systems only
                todo += [Requirement(row).name for row in requires(name) or () if "extra ==" not in row]
    return found


def modules_of(names):
    found = set()
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found |= {file.parts[0].partition(".")[0] for file in files(name) or ()}
    return found


def test_the_example_installs_all_imports_of_the_sweep():
    (install,) = [step["run"] for step in steps() if "pip install" in step.get("run", "")]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.split())
    where_installed = {"click", "pygments", "rich", "sniffio"}  # what httpx takes along if it is there
    assert {"httpx", "pydantic"} <= imported
    assert imported - modules_of(needed(install.split()[2:])) <= where_installed
