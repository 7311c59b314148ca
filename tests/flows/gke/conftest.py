import base64
from dataclasses import replace
from pathlib import Path

import pytest

from gridbench.run.session import deploy, name_images
from infra.local.access import auth_string
from infra.workers.kubernetes.pool import base_job_template, read_pool
from tasks.planning.hardware import DEPLOYMENTS
from tests.emulators.fixtures import environment
from tests.emulators.kube.nodes.podman import Containers
from tests.emulators.kube.pace import quick
from tests.emulators.kube.server import kube
from tests.emulators.lane import with_workload, worker
from tests.flows.gke.lanes import MACHINES, NAMESPACE, NODE_AFTER_S, POOLS

HERE = Path(__file__).parents[1]


ROLE = HERE.parents[1] / "infra" / "gke" / "role.yaml"


GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


SPOT_TAINT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}


ALLOCATABLE = {"nvidia.com/gpu": "1", "cpu": "7910m", "memory": "27Gi"}


OF_EVERY_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}  # as kubelets set it


PACE_OF_WORKER = {"KUBERNETES_JOBS_WORKER_POLL_S": "0.5", "PREFECT_WORKER_QUERY_SECONDS": "1"}


@pytest.fixture(scope="module")
def image(bench_image):
    return with_workload(bench_image, HERE / "workloads" / "nap.py")


@pytest.fixture(scope="module")
def cluster(session_bench, image, tmp_path_factory):
    """Node pools from 0, a work pool, the lane's deployment, and a worker with its Role's rights."""
    folder, settings = tmp_path_factory.mktemp("gke"), dict(session_bench.stack.environment)
    with kube(Containers(OF_EVERY_POD), replace(quick(), ttl_factor=1.0), namespaces=()) as made:
        made.apply(ROLE)
        made.apply([auth_secret(session_bench.stack.state)])
        for name in POOLS:
            add_node_pool(made, name)
        token = made.token(NAMESPACE, "gridbench-worker")
        config = {"KUBECONFIG": str(made.kubeconfig(folder / "kubeconfig", token, NAMESPACE))}
        make_work_pool(session_bench.stack)
        with environment(**session_bench.environment, GRIDBENCH_IMAGE_CPU=image):
            name_images(session_bench.stack.api)
            deploy(False, settings, "gke")
        with worker(settings | config | PACE_OF_WORKER, folder / "worker.log", "gke", "kubernetes-jobs"):
            yield made
        refused = [(r.method, r.path) for r in made.control.requests if r.status in (401, 403)]
        assert not refused, "the Role is enough"


def add_node_pool(cluster, name):
    accelerator, _, machine, purchase = MACHINES[name]
    spot = purchase == "spot"
    labels = {
        "cloud.google.com/gke-accelerator": accelerator,
        "cloud.google.com/gke-nodepool": name,
        "node.kubernetes.io/instance-type": machine,
    }
    cluster.control.autoscale(
        name,
        NODE_AFTER_S,
        labels=labels | ({"cloud.google.com/gke-spot": "true"} if spot else {}),
        taints=(GPU_TAINT, SPOT_TAINT) if spot else (GPU_TAINT,),
        allocatable=ALLOCATABLE,
    )


def auth_secret(state):
    data = {"auth": base64.b64encode(auth_string(state).encode()).decode()}
    return {"kind": "Secret", "metadata": {"name": "prefect", "namespace": NAMESPACE}, "data": data}


def make_work_pool(stack):
    """Make the pool, also again on the same server."""
    stack.api.delete("/work_pools/gke")
    pool = read_pool(DEPLOYMENTS / "pools" / "gke.yaml")
    template = base_job_template(pool, {"prefect_api_auth_string_secret": "prefect/auth"})
    body = {"name": "gke", "type": pool.type, "base_job_template": template}
    stack.api.post("/work_pools/", json=body).raise_for_status()
