"""A newcomer's terminal, with machines that this computer can stand for and a suite of one moment."""

import shutil

import pytest
import yaml

from tests.docs.shown import ROOT
from tests.emulators.newcomer import Shell
from tests.emulators.prefect_api import with_tables

MOMENT = """
title = "One product of small matrices"
repeats = 1
quick = true
timeout_s = 120
minutes = 0.1
[[cases]]
workload = "matmul"
size = { n = 64 }
"""


@pytest.fixture
def deployments(tmp_path):
    folder = tmp_path / "deployments"
    shutil.copytree(ROOT / "deployments", folder)
    for suite in ("quick", "loadtest"):
        (folder / "suites" / f"{suite}.toml").write_text(MOMENT)
    path = folder / "hardware" / "lambda-1x-a10.yaml"
    machine = yaml.safe_load(path.read_text()) | {"device": "cpu", "threads": 1}
    for name in ("gpu", "gpus"):
        machine.pop(name)
    machine["job_variables"].pop("gpus")
    machine["job_variables"] |= {"shared_memory_mib": 256, "container_command": ["docker"]}
    machine["job_variables"] |= {"pull": "never", "timeout_s": 600, "least_free_mib": 1}
    path.write_text(yaml.safe_dump(machine))
    return folder


@pytest.fixture
def shell(tmp_path, deployments):
    shell = Shell(tmp_path, {"GRIDBENCH_DEPLOYMENTS": str(deployments)})
    with_tables(tmp_path / "state")
    return shell
