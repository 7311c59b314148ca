"""`bench` over GKE: a real server and worker, a stand-in cluster, real containers of the image built here."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from gridbench.run.session import deploy, name_images
from infra.workers.kubernetes.api import OF_RUNS
from infra.workers.kubernetes.pool import base_job_template, read_pool
from tasks.gather import judged
from tasks.measure import FAILURES
from tasks.planning.hardware import DEPLOYMENTS
from tasks.pricing.facts import load_facts
from tests.emulators.fixtures import environment
from tests.emulators.kube.pace import quick
from tests.emulators.kube.podman import Containers
from tests.emulators.kube.server import kube
from tests.emulators.lane import with_workload, worker
from tests.flows.conftest import NODES_OF
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]

HERE = Path(__file__).parents[1]
ROLE = HERE.parents[1] / "infra" / "gke" / "role.yaml"
NAMESPACE = "gridbench"
POOLS = [name for name in NODES_OF if name != "node-p4"]
NODE_AFTER_S = 2
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SPOT_TAINT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
ALLOCATABLE = {"nvidia.com/gpu": "1", "cpu": "7910m", "memory": "27Gi"}
OF_EVERY_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}  # as kubelets set it
PACE_OF_WORKER = {"KUBERNETES_JOBS_WORKER_POLL_S": "0.5", "PREFECT_WORKER_QUERY_SECONDS": "1"}


@pytest.fixture(scope="module")
def image(bench_image):
    """The image built here, and naps to measure in it."""
    return with_workload(bench_image, HERE / "workloads" / "nap.py")


@pytest.fixture(scope="module")
def cluster(session_bench, image, tmp_path_factory):
    """Node pools from 0, a work pool, the lane's deployment, and a worker that may do what its Role says."""
    folder, settings = tmp_path_factory.mktemp("gke"), dict(session_bench.stack.environment)
    with kube(Containers(OF_EVERY_POD), replace(quick(), ttl_factor=1.0), namespaces=()) as made:
        made.apply(ROLE)
        for name in POOLS:
            add_node_pool(made, name)
        token = made.token(NAMESPACE, "gridbench-worker")
        config = {"KUBECONFIG": str(made.kubeconfig(folder / "kubeconfig", token, NAMESPACE))}
        make_work_pool(session_bench.stack.api_url)
        with environment(**session_bench.environment, GRIDBENCH_IMAGE_CPU=image):
            name_images(session_bench.stack.api_url)
            deploy(False, settings, "gke")
        with worker(settings | config | PACE_OF_WORKER, folder / "worker.log", "gke", "kubernetes-jobs"):
            yield made
        refused = [(r.method, r.path) for r in made.control.requests if r.status in (401, 403)]
        assert not refused, "the Role is enough"


def add_node_pool(cluster, name):
    accelerator, _, machine, purchase, *_ = NODES_OF[name]
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


def make_work_pool(api_url):
    pool = read_pool(DEPLOYMENTS / "pools" / "gke.yaml")
    body = {"name": "gke", "type": pool.type, "base_job_template": base_job_template(pool)}
    httpx.post(f"{api_url}/work_pools/", json=body, trust_env=False).raise_for_status()


def things(cluster, plural):
    return cluster.control.call(lambda: list(cluster.control.cluster.store.all(plural)))


def nodes_of(cluster):
    """The node of each pod that there ever was, by the scheduler's events."""
    placed = [event for event in things(cluster, "events") if event["reason"] == "Scheduled"]
    return {event["involvedObject"]["name"]: event["message"].rpartition(" ")[2] for event in placed}


def pod_that_says(cluster, text):
    """The running pod that has printed a text; None while there is none."""

    def look():
        logs = cluster.control.cluster.kubelet.logs
        for pod in cluster.control.cluster.store.all("pods"):
            said = b"".join(line for log in logs.get(pod["metadata"]["uid"], ()) for _, line in log.lines)
            if pod["status"].get("phase") == "Running" and text.encode() in said:
                return pod
        return None

    return cluster.control.call(look)


async def until(found, within_s=300):
    """What is found at last."""
    async with asyncio.timeout(within_s):
        while not (value := found()):
            await asyncio.sleep(0.1)
        return value


def of_run(cluster, plural, store):
    """The Jobs or pods of a run's lanes."""
    lanes = {note["flow_run_id"] for note in notes(store)}
    return [of for of in things(cluster, plural) if of["metadata"]["labels"].get(OF_RUNS) in lanes]


def ends(cluster, store):
    """How each Job of a run has ended, None while it goes on."""
    conditions = [job["status"].get("conditions", ()) for job in of_run(cluster, "jobs", store)]
    return [next((c["type"] for c in of if c["type"] in ("Complete", "Failed")), None) for of in conditions]


def notes(store):
    return json.loads((store.folder / "jobs.json").read_text())


def usd_per_hour(name):
    """Host and GPU of a machine, from the snapshot."""
    _, gpu, host, purchase, *_ = NODES_OF[name]
    facts = [fact for fact in load_facts(DEPLOYMENTS) if fact.provider == "gcp" and fact.purchase == purchase]
    parts = [fact for fact in facts if fact.part in (("host", host), ("gpu", gpu))]
    return sum(fact.usd_per_hour for fact in parts if fact.region == "us-central1")


async def finished(bench, run_id):
    """The store of a run that went to its end, with its records."""
    state = await bench.end(run_id, within_s=1200)
    assert state.is_completed(), state.message
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd
    return store, records


async def test_three_accelerators_are_measured_compared_and_priced(bench, cluster):
    store, records = await finished(bench, await bench.start(suite="miniature", hardware=POOLS))
    assert [r.cell for r in records] == store.plan.cells and len(records) == 9
    assert not {r.verdict for r in records} & FAILURES
    placed = nodes_of(cluster)
    for record in records:
        assert record.environment["container"] == "kubernetes" and record.environment["commit"]
        assert placed[record.environment["hostname"]] == f"{record.hardware}-1"
    quiet = [replace(record, verdict=Verdict.OK, reasons=()) for record in records]  # this machine may not be
    found = judged(quiet, store)
    assert not found.refusals
    compared(found)
    billed(found, notes(store))
    await until(lambda: all(ends(cluster, store)))
    assert ends(cluster, store) == ["Complete"] * 3, "one job a lane"
    assert {pod["status"]["phase"] for pod in of_run(cluster, "pods", store)} == {"Succeeded"}
    made = {(r.method, r.path) for r in cluster.control.asked() if r.method not in ("GET", "DELETE")}
    assert made == {("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")}, "nothing but Jobs is left"


def compared(found):
    """Every cell has a price and, against the first machine's, a speedup; the answer speaks of both."""
    assert all(summary.usd_per_million_units for summary in found.summaries)
    assert {(p.hardware, p.baseline) for p in found.pairings} == {(name, POOLS[0]) for name in POOLS[1:]}
    for pairing in found.pairings:
        cheaper = usd_per_hour(pairing.baseline) / usd_per_hour(pairing.hardware)
        assert pairing.cost.estimate.value == pytest.approx(pairing.compute.estimate.value * cheaper)
    assert len(found.pairings) == 6 and [line.partition(":")[0] for line in found.answer[:2]] == [
        "Fastest for this suite",
        "Cheapest for this suite",
    ]


def billed(found, jobs):
    """Each lane's bill: the node that came, the image, and every second at the price of host and GPU."""
    assert [job["hardware"] for job in jobs] == POOLS == [bill.hardware for bill in found.bills]
    for job, bill, machine in zip(jobs, found.bills, found.machines, strict=True):
        assert job["stages_s"].keys() == {"queue and boot", "image pull"}
        assert dict(bill.parts_s)["queue and boot"] >= NODE_AFTER_S - 1, "Kubernetes tells whole seconds"
        assert bill.billed_s == pytest.approx(job["billed_s"])
        assert machine.usd_per_hour == pytest.approx(usd_per_hour(machine.name)) and machine.usd_per_hour
        assert bill.usd == pytest.approx(bill.billed_s / 3600 * machine.usd_per_hour)


@pytest.mark.chaos
async def test_a_reclaimed_lane_goes_on_with_what_is_left_on_a_new_node(bench, cluster):
    run_id = await bench.start(suite="cloud", hardware=["node-l4-spot"])
    pod = await until(lambda: pod_that_says(cluster, "[3/6]"))
    cluster.control.reclaim_node(pod["spec"]["nodeName"])
    store, records = await finished(bench, run_id)
    assert len(records) == 6 and not {r.verdict for r in records} & FAILURES
    first, second = notes(store)
    assert (first["repeats"], second["repeats"]) == (6, 4), "two records had come"
    placed = nodes_of(cluster)
    there = [placed[record.environment["hostname"]] for record in records]
    assert len(set(there)) == 2 and there.count(pod["spec"]["nodeName"]) == 2
    (bill,) = judged(records, store).bills
    assert bill.billed_s == pytest.approx(first["billed_s"] + second["billed_s"]), "lost minutes are paid for"
    async with bench.client() as client:
        lost = await client.read_flow_run(first["flow_run_id"])
    assert lost.state.name == "Reclaimed" and f"{pod['spec']['nodeName']} was shut down" in lost.state.message


@pytest.mark.chaos
async def test_an_accelerator_that_no_pool_has_ends_its_lane_and_no_other(bench, cluster):
    store, records = await finished(bench, await bench.start(hardware=["node-p4", "node-t4"]))
    absent = [record for record in records if record.hardware == "node-p4"]
    assert len(absent) == 3 and {record.verdict for record in absent} == {Verdict.CAPACITY}
    measured = [record for record in records if record.hardware == "node-t4"]
    assert len(measured) == 3 and not {record.verdict for record in measured} & FAILURES
    (job,) = [note for note in notes(store) if note["hardware"] == "node-p4"]
    async with bench.client() as client:
        lane = await client.read_flow_run(job["flow_run_id"])
    assert lane.state.name == "Unschedulable" and lane.state.message in absent[0].reasons[0]
    words = ("No node took the pod within schedule_within_s 5: 0/", "NotTriggerScaleUp")
    assert all(word in lane.state.message for word in words), lane.state.message
    name = lane.infrastructure_pid.partition(":")[2]
    assert cluster.control.asked("DELETE", f"*/jobs/{name}")
    await until(lambda: name not in {of["metadata"]["name"] for of in things(cluster, "jobs")})
