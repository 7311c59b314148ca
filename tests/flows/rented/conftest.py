import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tasks.planning.hardware import DEPLOYMENTS
from tasks.store.store import Store
from tests.emulators.lambda_cloud.control import Control
from tests.emulators.lambda_cloud.quick import nothing_left
from tests.emulators.lambda_cloud.server import lambda_cloud
from tests.emulators.lambda_cloud.ssh_boxes import SshBoxes
from tests.emulators.prefect_api import with_tables

HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def image(bench_image):
    return bench_image


@pytest.fixture
def cloud():
    control = Control(capacity={("gpu_1x_a10", "us-east-1"): 4})
    with lambda_cloud(control, SshBoxes()) as cloud:
        yield cloud
        assert nothing_left(cloud), "every box and every key is given back, whatever the test did"


class Command:
    def __init__(self, folder, cloud, image):
        self.folder = folder
        self.environment = os.environ | {
            "GRIDBENCH_DEPLOYMENTS": str(folder / "deployments"),
            "GRIDBENCH_WORKLOADS": str(HERE / "workloads"),
            "GRIDBENCH_RESULTS": str(folder / "results"),
            "GRIDBENCH_STATE": str(with_tables(folder / "state")),
            "GRIDBENCH_IMAGE_CPU": image,
            "LAMBDA_API_KEY": cloud.control.key,
            "LAMBDA_API_URL": cloud.url,
            "COLUMNS": "120",
        }
        self.environment.pop("PREFECT_API_URL", None)
        self.processes = []

    def start(self, *words):
        out = (self.folder / f"{len(self.processes)}.log").open("wb")
        command = [str(Path(sys.executable).with_name("gridbench")), *words]
        self.processes.append(subprocess.Popen(command, env=self.environment, stdout=out, stderr=out))
        return self.processes[-1]

    def __call__(self, *words):
        code = self.start(*words).wait(1200)
        return code, (self.folder / f"{len(self.processes) - 1}.log").read_text()

    def records(self, at_least=1, within_s=600):
        deadline = time.monotonic() + within_s
        while len(found := list((self.folder / "results").glob("*/records/**/*.json"))) < at_least:
            assert time.monotonic() < deadline, self.words()
            time.sleep(0.2)
        return Store.open(self.folder / "results", found[0].relative_to(self.folder / "results").parts[0])

    def words(self):
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("*.log")))

    def cut_the_power(self):
        """Kill all processes of these commands at once."""
        ours = [*self._ours()]
        for process in ours:
            process.suspend()
        for process in [*ours, *self._ours()]:
            process.kill()

    def _ours(self):
        for process in psutil.process_iter():
            try:
                if process.environ().get("GRIDBENCH_RESULTS") == str(self.folder / "results"):
                    yield process
            except psutil.Error:
                continue


@pytest.fixture
def gridbench(tmp_path, cloud, image):
    shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")
    shutil.copytree(HERE / "deployments", tmp_path / "deployments", dirs_exist_ok=True)
    command = Command(tmp_path, cloud, image)
    yield command
    command.cut_the_power()
