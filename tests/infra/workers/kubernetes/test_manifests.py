import re
import uuid
from datetime import date
from decimal import Decimal
from functools import cache

import kubernetes_validate
import pytest
import yaml
from prefect.client.schemas.objects import FlowRun
from prefect.utilities.schema_tools import validate

from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration, job_name
from infra.workers.kubernetes.pool import base_job_template, read_pool
from tasks.planning.hardware import DEPLOYMENTS, hardware_names, load_hardware

ROOT = DEPLOYMENTS.parent
VERSION = "1.36"
SNAPSHOT = date(2026, 11, 21)  # prices grow old by themselves
UNITS = {"": 1, "m": Decimal("0.001"), "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
GKE = [name for name in hardware_names() if load_hardware(name).pool == "gke"]
SHAPES = {
    "n1-standard-8": (8, 30),
    "g2-standard-8": (8, 32),
    "a2-highgpu-1g": (12, 85),
    "a2-ultragpu-1g": (12, 170),
    "a3-highgpu-1g": (26, 234),
    "a3-highgpu-8g": (208, 1872),
}  # fmt: skip  vCPUs and GiB of memory


def amount(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(m|[KMGT]i)?", str(text))
    return Decimal(found[1]) * UNITS[found[2] or ""] if found else None


def faults(job):
    """Yield faults that the schema allows and a cluster would refuse or misread."""
    pod = job["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    if pod.get("restartPolicy") != "Never":
        yield "restartPolicy"
    for container in pod["containers"]:
        limits, requests = (container["resources"][kind] for kind in ("limits", "requests"))
        if bad := [text for text in (*limits.values(), *requests.values()) if amount(text) is None]:
            yield f"quantity {bad[0]}"
        elif {name: amount(text) for name, text in limits.items()} != {
            name: amount(text) for name, text in requests.items()
        }:
            yield "not Guaranteed"
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        if len({*paths}) < len(paths):
            yield "mounted twice"
        if {mount["name"] for mount in container.get("volumeMounts", [])} != volumes.keys():
            yield "mounts and volumes differ"
    most = amount(limits["memory"])
    for empty in (volume["emptyDir"] for volume in volumes.values()):
        if most and empty.get("medium") == "Memory" and not 0 < amount(empty["sizeLimit"]) < most:
            yield "shared memory"


async def job_of(pool, **values):
    template = base_job_template(read_pool(DEPLOYMENTS / "pools" / f"{pool}.yaml"))
    validate(values, template["variables"], raise_on_error=True)  # as the server does
    asked = await KubernetesJobsConfiguration.from_template_and_values(template, values, client=object())
    run = FlowRun(id=uuid.uuid4(), flow_id=uuid.uuid4(), name=f"{pool} · 3 repeats")
    asked.prepare_for_flow_run(run)
    return asked.job(job_name(run.id, 1))


def machine_values(name):
    return load_hardware(name).job_variables | {"image": f"registry.example/lane@sha256:{'0' * 64}"}


@cache
def documents():
    return list(yaml.safe_load_all((ROOT / "infra/gke/role.yaml").read_text()))


def document(kind, name):
    (found,) = [d for d in documents() if (d["kind"], d["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize("name", GKE)
class TestMachines:
    async def test_the_job_of_a_machine_is_valid(self, name):
        job = await job_of("gke", **machine_values(name))
        kubernetes_validate.validate(job, VERSION, strict=True)
        assert [*faults(job)] == []
        assert job["metadata"]["labels"]["gridbench/hardware"] == name
        assert job["spec"]["template"]["metadata"]["labels"]["gridbench/hardware"] == name

    async def test_a_job_keeps_to_the_restricted_pod_security_standard(self, name):
        pod = (await job_of("gke", **machine_values(name)))["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        own = container["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert own["allowPrivilegeEscalation"] is False and own["capabilities"] == {"drop": ["ALL"]}
        assert own["readOnlyRootFilesystem"] and pod["automountServiceAccountToken"] is False
        assert all(volume.keys() == {"name", "emptyDir"} for volume in pod["volumes"])
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}

    def test_a_job_fits_on_its_node(self, name):
        machine = load_hardware(name)
        cpus, memory_gib = SHAPES[machine.instance_type]
        asked = machine.job_variables
        # What GKE keeps, https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes, and a
        # margin for its own pods on the node.
        kept_cpus = 0.06 + 0.01 + 0.005 * 2 + 0.0025 * (cpus - 4)
        steps = ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06), (memory_gib, 0.02))
        kept_gib, left = 0.1, memory_gib
        for width, share in steps:
            kept_gib += share * min(width, max(left, 0))
            left -= width
        assert asked["vcpus"] <= cpus - kept_cpus - 0.5
        assert asked["memory_mib"] <= (memory_gib - kept_gib - 1) * 1024
        assert asked["vcpus"] > cpus / 2  # so that no second one fits

    def test_a_job_runs_on_the_machine_that_is_priced(self, name):
        machine = load_hardware(name, today=SNAPSHOT)
        asked = machine.job_variables
        assert asked["node_selector"] == {"node.kubernetes.io/instance-type": machine.instance_type}
        assert asked["gpus"] == machine.gpus
        assert asked.get("spot", False) == (machine.price.purchase == "spot") == name.endswith("-spot")
        assert machine.start_within_s > asked["schedule_within_s"]
        assert machine.unsupported or (machine.price.usd_per_hour > 0 and machine.price.flags == ())
        assert machine.unsupported or f"gcp {machine.instance_type} at" in machine.price.note

    def test_a_machine_of_hardware_files_is_in_the_accelerator_list(self, name):
        machine = load_hardware(name)
        known = yaml.safe_load((ROOT / "infra/gke/accelerators.yaml").read_text())["accelerators"]
        entry = known[machine.job_variables["accelerator"]]
        assert entry["gpu"] == machine.gpu and bool(entry.get("unsupported")) == bool(machine.unsupported)
        if not machine.unsupported:
            shape = entry["shapes"][machine.gpus]
            assert shape["machine"] == machine.instance_type
            assert machine.job_variables.get("spot") or not shape.get("spot_only")

    def test_all_machines_use_the_same_image(self, name):
        assert "gridbench_image_cuda12 " in load_hardware(name).job_variables["image"]


def test_every_accelerator_of_the_comparison_is_there():
    named = {load_hardware(name).job_variables["accelerator"] for name in GKE}
    known = yaml.safe_load((ROOT / "infra/gke/accelerators.yaml").read_text())["accelerators"]
    assert named == known.keys()
    assert {name for name in GKE if load_hardware(name).unsupported} == {"gke-k80"}


async def test_any_kubernetes_takes_the_same_job():
    values = {"image": "i", "gpus": 2, "accelerator": "NVIDIA-L4", "shared_memory_mib": 64, "vcpus": 0.5}
    job = await job_of("kubernetes", **values)
    kubernetes_validate.validate(job, VERSION, strict=True)
    assert [*faults(job)] == []
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}


async def test_a_login_to_a_registry_is_the_pods():
    job = await job_of("kubernetes", image="private.example/lane:1", image_pull_secrets=["my-login"])
    kubernetes_validate.validate(job, VERSION, strict=True)
    assert job["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "my-login"}]
    assert "imagePullSecrets" not in (await job_of("kubernetes", image="i"))["spec"]["template"]["spec"]


class TestRights:
    def test_every_document_is_sound(self):
        for each in documents():
            kubernetes_validate.validate(each, VERSION, strict=True)

    def test_the_worker_has_exactly_the_rights_that_it_needs(self):
        rules = document("Role", "gridbench-worker")["rules"]
        found = {(rule["apiGroups"][0], of): {*rule["verbs"]} for rule in rules for of in rule["resources"]}
        assert found == {
            ("batch", "jobs"): {"create", "delete", "get", "list", "watch"},
            ("", "pods"): {"list", "watch"},
            ("", "pods/log"): {"get"},
            ("", "events"): {"list", "watch"},
        }
        assert all(len(rule["apiGroups"]) == 1 for rule in rules)

    def test_nothing_is_granted_beyond_the_namespace(self):
        text = (ROOT / "infra/gke/role.yaml").read_text()
        assert "*" not in text and "ClusterRole" not in text
        spaces = {each["metadata"].get("namespace") for each in documents() if each["kind"] != "Namespace"}
        assert spaces == {"gridbench"}

    def test_the_role_is_bound_to_the_worker_alone(self):
        (binding,) = [each for each in documents() if each["kind"] == "RoleBinding"]
        assert binding["roleRef"]["name"] == "gridbench-worker"
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "gridbench-worker", "namespace": "gridbench"}
        ]

    @pytest.mark.parametrize("pool", ["gke", "kubernetes"])
    def test_pools_name_the_account_and_the_namespace_that_are_made(self, pool):
        filled = read_pool(DEPLOYMENTS / "pools" / f"{pool}.yaml").job_variables
        account = document("ServiceAccount", filled["service_account"])
        assert account["metadata"]["namespace"] == filled["namespace"]
        assert account["automountServiceAccountToken"] is False
        labels = document("Namespace", filled["namespace"])["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"

    @pytest.mark.parametrize("pool", ["gke", "kubernetes"])
    def test_each_pool_has_its_lane(self, pool):
        known = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
        (lane,) = [each for each in known if each["work_pool"]["name"] == pool]
        assert (lane["name"], lane["entrypoint"]) == (pool, "flows/lane.py:lane")
