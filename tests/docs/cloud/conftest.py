"""A newcomer's empty home directory, checkout, account, and Prefect server."""

import base64
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from infra.gke.api import ENDPOINT_VARIABLE, PROJECT_VARIABLE
from tests.emulators import containers
from tests.emulators.gke.account import Account
from tests.emulators.gke.server import serve
from tests.emulators.kube.nodes.podman import Containers
from tests.emulators.kube.pace import quick
from tests.emulators.kube.server import kube
from tests.emulators.newcomer import Shell, copy_of_checkout
from tests.emulators.own_server import PrefectServer
from tests.emulators.prefect_api import with_tables
from tests.emulators.tls import in_front_of
from tests.flows.conftest import DEPLOYMENTS
from tests.flows.gke.conftest import OF_EVERY_POD, PACE_OF_WORKER, add_node_pool

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
    """The checkout's own, with a suite `quick` of one moment and machines that this computer emulates."""
    folder = tmp_path / "deployments"
    shutil.copytree(DEPLOYMENTS, folder)
    for suite in ("quick", "accelerators", "loadtest"):
        (folder / "suites" / f"{suite}.toml").write_text(QUICK)
    for path in [*(folder / "hardware").glob("aws-*.yaml"), *(folder / "hardware").glob("gke-*.yaml")]:
        machine = yaml.safe_load(path.read_text())
        machine["job_variables"] |= SMALL
        if path.name.startswith("aws-"):
            machine["job_variables"].pop("gpus", None)
            machine.pop("gpus", None)
        else:
            machine["job_variables"]["ephemeral_storage_mib"] = 1024
        machine |= {"device": "cpu", "threads": 1, "box": "emulator"}
        for name in ("gpu", "memory_gb"):
            machine.pop(name, None)
        path.write_text(yaml.safe_dump(machine))
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
    with_tables(tmp_path / "state")
    checkout = copy_of_checkout(tmp_path / "checkout")
    return Shell(tmp_path, {"GRIDBENCH_DEPLOYMENTS": str(deployments)}, checkout)


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


# [doc] kubernetes.io/docs/reference/access-authn-authz/authentication, credential plugins
PLUGIN = """
import json, os
status = {"token": os.environ["GRIDBENCH_TEST_TOKEN"]}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": status}))
"""


@pytest.fixture
def cluster(bench_image):
    """GKE's cluster for `up gke`: a Kubernetes API, and nodes that come with pods."""
    with kube(Containers(OF_EVERY_POD), replace(quick(), ttl_factor=1.0), namespaces=()) as made:
        for name in ("node-l4", "node-t4"):
            add_node_pool(made, name)
        yield made


@pytest.fixture
def google(shell, cluster, bench_image):
    """A shell with a project at Google, whose clusters are `cluster`; the emulated account."""
    port = int(cluster.url.rpartition(":")[2])
    with in_front_of(port) as (endpoint, certificate):
        account = Account(endpoint=endpoint, ca=base64.b64encode(certificate).decode())
        with serve(account) as address:
            shell.program("gke-gcloud-auth-plugin", PLUGIN, GRIDBENCH_TEST_TOKEN=cluster.admin_token)
            shell.environment |= PACE_OF_WORKER | {
                ENDPOINT_VARIABLE: address,
                PROJECT_VARIABLE: "my-project",
                "CONTAINERS_CONF": containers.environment()["CONTAINERS_CONF"],
            }
            yield account
