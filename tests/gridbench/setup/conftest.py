"""What a newcomer has: an empty home directory, a checkout, an account, and a Prefect server of their own."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.emulators import containers
from tests.emulators.newcomer import Shell
from tests.emulators.own_server import PrefectServer
from tests.flows.conftest import DEPLOYMENTS

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
