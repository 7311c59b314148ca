"""What a newcomer has: an empty home directory, a checkout, an account, and a Prefect server of their own."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from gridbench.run.session import ROOT
from infra.local.ports import free_port
from tests.emulators import containers
from tests.emulators.prefect_api import DATABASE, with_tables
from tests.flows.conftest import DEPLOYMENTS

AUTH = "me:very-secret"
QUICK = """
title = "One product of small matrices"
repeats = 1
quick = true
timeout_s = 120
minutes = 0.1
[[cases]]
workload = "matmul"
size = { n = 64 }
"""
SMALL = {"memory_mib": 3000, "shared_memory_mib": 256, "timeout_s": 600}
ENGINE = Path(__file__).with_name("docker_of_tests.py")


def address():
    """An address of this machine that containers reach, and other machines."""
    found = (entry for entries in psutil.net_if_addrs().values() for entry in entries)
    of_ip4 = (entry.address for entry in found if entry.family == socket.AF_INET)
    return next(text for text in of_ip4 if not text.startswith("127."))


class PrefectServer:
    """A server of one's own: with an auth string, on an address that machines elsewhere reach."""

    def __init__(self, folder):
        port = free_port("0.0.0.0")
        self.url = f"http://{address()}:{port}/api"
        environment = os.environ | {
            "HOME": str(folder),
            "PREFECT_SERVER_API_AUTH_STRING": AUTH,
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{with_tables(folder) / DATABASE}",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        command = [sys.executable, "-m", "infra.local.server", "--host", "0.0.0.0", "--port", str(port)]
        self.log = (folder / "server.log").open("wb")
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=self.log, stderr=self.log)

    def wait(self):
        deadline = time.monotonic() + 280
        while True:
            try:
                if httpx.get(f"{self.url}/health", auth=tuple(AUTH.split(":")), trust_env=False).is_success:
                    return self
            except httpx.HTTPError:
                pass
            assert self.process.poll() is None and time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.2)

    def names(self, kind):
        """The names of all objects of a kind."""
        with httpx.Client(auth=tuple(AUTH.split(":")), trust_env=False, timeout=60) as client:
            return {row["name"] for row in client.post(f"{self.url}/{kind}/filter", json={}).json()}

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


@pytest.fixture
def prefect_server(tmp_path):
    server = PrefectServer(tmp_path / "server")
    try:
        yield server.wait()
    finally:
        server.stop()


@pytest.fixture
def deployments(tmp_path):
    """The checkout's own, with a suite `quick` of one moment and machines that this computer can stand for."""
    folder = tmp_path / "deployments"
    shutil.copytree(DEPLOYMENTS, folder)
    (folder / "suites" / "quick.toml").write_text(QUICK)
    for path in [*(folder / "hardware").glob("aws-*.yaml"), *(folder / "hardware").glob("gke-*.yaml")]:
        machine = yaml.safe_load(path.read_text())
        machine["job_variables"] |= SMALL
        if path.name.startswith("aws-"):
            machine["job_variables"].pop("gpus", None)
            machine.pop("gpus", None)
        machine |= {"device": "cpu", "threads": 1, "box": "emulator"}
        for name in ("gpu", "memory_gb"):
            machine.pop(name, None)
        path.write_text(yaml.safe_dump(machine))
    return folder


class Shell:
    """A terminal in the checkout, of somebody with an empty home directory who answers y."""

    def __init__(self, folder, environment):
        self.home = folder / "home"
        self.home.mkdir()
        (folder / "bin").mkdir()
        self.path = folder / "bin"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT_", "GRIDBENCH_"))
        }
        path = f"{self.path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {
            "HOME": str(self.home),
            "PATH": path,
            "GRIDBENCH_STATE": str(folder / "state"),
            "GRIDBENCH_RESULTS": str(folder / "results"),
            "GRIDBENCH_BOX_LOCK": str(folder / "box.lock"),
            "COLUMNS": "200",
        }
        self.environment = kept | own | environment

    def program(self, name, script, **variables):
        """A program on the path."""
        path = self.path / name
        path.write_text(f"#!{sys.executable} -P\n{script}")
        path.chmod(0o755)
        self.environment |= variables

    def __call__(self, command, timeout=900):
        """The exit code of a command line, and all that it printed."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=self.environment,
            input="y\n" * 5,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return done.returncode, done.stdout + done.stderr

    def processes(self):
        """Our workers and servers that still run."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.home):
                    found.append(process.cmdline())
        return found


@pytest.fixture
def shell(tmp_path, deployments):
    return Shell(tmp_path, {"GRIDBENCH_DEPLOYMENTS": str(deployments)})


@pytest.fixture
def newcomer(shell, aws, bench_image, tmp_path):
    """A shell with credentials of AWS and a docker."""
    shell.environment |= aws.environment | {"AWS_BATCH_WORKER_POLL_S": "0.5"}
    shell.program(
        "docker",
        ENGINE.read_text(),
        GRIDBENCH_TEST_IMAGE=bench_image,
        GRIDBENCH_TEST_ENGINE_LOG=str(tmp_path / "engine.log"),
        CONTAINERS_CONF=containers.environment()["CONTAINERS_CONF"],
    )
    aws.control.images["*.dkr.ecr.*"] = bench_image
    return shell
