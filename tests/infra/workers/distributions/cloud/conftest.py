import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.workers.batch.worker import AwsBatchWorker
from infra.workers.distributions.__main__ import build
from infra.workers.distributions.layout import DISTRIBUTIONS, Distribution
from infra.workers.ssh.worker import SshWorker
from tests.emulators import containers
from tests.emulators.boxes import boxes
from tests.infra.workers.ad_hoc import bundle_in_api
from tests.infra.workers.distributions.clean import ROOT, Clean
from tests.infra.workers.worker_prefect import POLL_S

USER = Path(__file__).parents[1] / "user"
KINDS = {"ssh": SshWorker, "batch": AwsBatchWorker}
STEPS = "bundle_steps"  # how flows without a deployment reach the container
RECIPE = """
FROM {image}
USER root
RUN rm -rf /opt/gridbench
COPY hello.py bundle_steps.py /flows/
ENV PYTHONPATH=/flows
WORKDIR /flows
USER gridbench
"""
FAST = {
    "PREFECT_WORKER_HEARTBEAT_SECONDS": "2",
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "SSH_WORKER_POLL_S": POLL_S,
    "AWS_BATCH_WORKER_POLL_S": POLL_S,
    "AWS_BATCH_WORKER_LOOPBACK_API": "true",  # the containers of the emulator share this machine's network
}


@dataclass
class Installed:
    distribution: Distribution
    sdist: Path
    wheel: Path
    clean: Clean

    @property
    def kind(self):
        return KINDS[self.distribution.folder]


@pytest.fixture(scope="module", params=DISTRIBUTIONS, ids=lambda distribution: distribution.name)
def installed(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    sdist, wheel = build(request.param, folder / "dist", ROOT / "tests/infra/workers")
    clean = Clean(folder)
    clean.pip("install", f"{wheel}[dev]")
    for path in USER.glob("*.py"):
        shutil.copy(path, clean.flows)
    shutil.copy(bundle_in_api.__file__, clean.flows / f"{STEPS}.py")
    return Installed(request.param, sdist, wheel, clean)


@pytest.fixture
def image(bench_image, installed):
    name = "localhost/gridbench-distributions:test"
    command = ["podman", "build", "--quiet", "--tag", name, "--file", "-", str(installed.clean.flows)]
    recipe, environment = RECIPE.format(image=bench_image), containers.environment()
    subprocess.run(command, input=recipe, text=True, check=True, capture_output=True, env=environment)
    return name


@pytest.fixture
def batch_variables(batch_queue, image):
    return {"job_queue": batch_queue("g5.xlarge"), "region": "us-east-1", "memory_mib": 512}


@pytest.fixture
def ssh_variables(image):
    with boxes(1) as (box,):
        (box.folder / "bundles").mkdir()
        mounts = [f"{box.folder}/bundles:/bundles"]
        yield {"hosts": [box.host], "least_free_mib": 1, "wait_s": 120, "mounts": mounts}


@pytest.fixture
def variables(request, installed, prefect, monkeypatch):
    made = request.getfixturevalue(f"{installed.distribution.folder}_variables")
    server = {name: value for name, value in prefect.environment.items() if name.startswith("PREFECT_")}
    paths = {"PYTHONPATH": str(installed.clean.flows)}  # of the step that uploads a flow
    monkeypatch.setattr(installed.clean, "variables", installed.clean.variables | server | FAST | paths)
    return made
