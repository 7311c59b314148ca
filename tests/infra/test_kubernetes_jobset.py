"""A group's JobSet against the published schemas, and its pods' command against torchrun's own parser."""

import copy
import re
import shlex
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from prefect.client.schemas.objects import FlowRun

from infra.workers.asked import Refused
from infra.workers.kubernetes_configuration import KubernetesJobsConfiguration, default_template, job_name
from infra.workers.kubernetes_jobset import jobset

CRD = Path(__file__).parent / "jobset_v0.12.0.yaml"
TRAIN = ["python", "train.py", "--epochs", "2"]
ASKED = {
    "image": "bench",
    "gpus": 4,
    "accelerator": "nvidia-l4",
    "node_labels": {"accelerator": "gpu-model", "spot": "is-spot"},
    "command": " ".join(TRAIN),
    "timeout_s": 3600,
    "schedule_within_s": 900,
    "ttl_s": 120,
}


async def job_of(number=1, **values):
    asked = await KubernetesJobsConfiguration.from_template_and_values(
        default_template(), ASKED | values, client=object()
    )
    run = FlowRun(id=uuid.UUID(int=7), flow_id=uuid.UUID(int=8), name="two nodes")
    asked.prepare_for_flow_run(run)
    return asked.job(job_name(run.id, number))


@pytest.fixture
async def job():
    return await job_of()


def strict(schema):
    """As the API server reads it where fields that it does not know are refused."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return closed | {key: strict(part) for key, part in schema.items()}


def check(made):
    jsonschema.validate(made, strict(yaml.safe_load(CRD.read_text())))


def only(made):
    """The set's only group, its Job's spec, and its container."""
    (group,) = made["spec"]["replicatedJobs"]
    spec = group["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    return group, spec, container


def command_on(made, node, **instead):
    """What a node's pod runs: the kubelet's expansion, with the variable that the Job controller adds."""
    _, _, container = only(made)
    env = {entry["name"]: entry.get("value", "") for entry in container["env"]} | instead
    env["JOB_COMPLETION_INDEX"] = str(node)
    return [re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], word) for word in container["args"]]


def pods_name(made, node):
    """https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2: hostname and service of a pod."""
    host = f"{made['metadata']['name']}-{only(made)[0]['name']}-0-{node}"
    return host, made["spec"]["network"]["subdomain"]


def test_it_keeps_to_jobsets_schema_and_its_job_to_kubernetes_own(job):
    made = jobset(job, 3, 4)
    check(made)
    group, spec, _ = only(made)
    embedded = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    embedded["metadata"] |= group["template"]["metadata"]
    kubernetes_validate.validate(embedded, "1.36", strict=True)
    assert (spec["completionMode"], spec["parallelism"], spec["completions"]) == ("Indexed", 3, 3)
    assert group["replicas"] == 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("failurePolicy", {"maxRestarts": "0"}),
        ("network", {"subDomain": "x"}),
        ("replicatedJobs", [{"name": "x"}]),
        ("startupPolicy", {"startupPolicyOrder": "Whenever"}),
        ("parallelism", 2),
    ],
)
def test_the_schema_refuses_what_a_cluster_would(job, place, value):
    made = jobset(job, 2, 1)
    made["spec"][place] = value
    with pytest.raises(jsonschema.ValidationError):
        check(made)


def test_it_never_repeats_and_ends_as_the_job_would(job):
    made = jobset(job, 2, 4)
    _, spec, _ = only(made)
    assert made["spec"]["failurePolicy"] == {"maxRestarts": 0} and spec["backoffLimit"] == 0
    assert spec["activeDeadlineSeconds"] == job["spec"]["activeDeadlineSeconds"] == 4500
    # A Job that its own time to live removes would be made anew.
    assert made["spec"]["ttlSecondsAfterFinished"] == 120 and "ttlSecondsAfterFinished" not in spec


def test_it_is_the_jobs_in_all_else(job):
    before = copy.deepcopy(job)
    made = jobset(job, 2, 4)
    group, spec, container = only(made)
    assert job == before
    assert made["metadata"] == job["metadata"]
    assert group["template"]["metadata"]["labels"] == job["metadata"]["labels"]
    pod, once = spec["template"]["spec"], job["spec"]["template"]["spec"]
    assert pod["affinity"]["nodeAffinity"] == once["affinity"]["nodeAffinity"]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert list(apart["labelSelector"]["matchLabels"].values()) == [made["metadata"]["name"]]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert {key: pod[key] for key in pod if key not in ("containers", "affinity")} == {
        key: once[key] for key in once if key not in ("containers", "affinity")
    }
    assert {key: container[key] for key in container if key not in ("args", "env")} == {
        key: once["containers"][0][key] for key in once["containers"][0] if key not in ("args", "env")
    }


def test_torchrun_reads_the_same_group_on_every_node(job):
    from torch.distributed import run

    made = jobset(job, 3, 4)
    host, service = pods_name(made, 0)
    for node in range(3):
        words = command_on(made, node)
        assert words[:3] == ["python", "-m", "torch.distributed.run"]
        config, program, arguments = run.config_from_args(run.parse_args(words[3:]))
        assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (3, 3, 4)
        assert config.rdzv_endpoint == f"{host}.{service}:29500" and config.rdzv_backend == "static"
        assert config.rdzv_configs["rank"] == node and config.max_restarts == 0
        assert int(config.rdzv_configs["timeout"]) == 4500
        assert [program, *arguments] == TRAIN


@pytest.mark.slow
async def test_torchrun_makes_one_group_of_two_nodes_on_this_machine():
    words = shlex.join(["sh", "-c", "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"])
    made = jobset(await job_of(command=words), 2, 2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    nodes = [
        subprocess.Popen(
            [sys.executable, *command_on(made, node, **here)[1:]], stdout=subprocess.PIPE, text=True
        )
        for node in (1, 0)  # the last node may be there first
    ]
    said = [node.communicate(timeout=300)[0].split("\n") for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert {*said[0]} >= {"2 of 4, 0 of 2", "3 of 4, 1 of 2"}
    assert {*said[1]} >= {"0 of 4, 0 of 2", "1 of 4, 1 of 2"}


def test_the_first_node_can_be_found(job):
    made = jobset(job, 2, 1)
    network = made["spec"]["network"]
    assert network["enableDNSHostnames"] and network["publishNotReadyAddresses"]
    host, service = pods_name(made, 0)
    assert all(re.fullmatch("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", label) for label in (host, service))
    env = {entry["name"]: entry.get("value") for entry in only(made)[2]["env"]}
    assert env["MASTER_ADDR"] == f"{host}.{service}" and env["MASTER_PORT"].isdecimal()


async def test_an_address_of_the_users_own_gives_way():
    made = jobset(await job_of(env={"MASTER_ADDR": "elsewhere", "NCCL_DEBUG": "INFO"}), 2, 1)
    found = [(entry["name"], entry.get("value")) for entry in only(made)[2]["env"]]
    assert [name for name, _ in found].count("MASTER_ADDR") == 1
    assert ("MASTER_ADDR", "elsewhere") not in found and ("NCCL_DEBUG", "INFO") in found


@pytest.mark.parametrize(
    ("values", "nodes", "processes", "said"),
    [
        ({}, 0, 1, "nodes is 0: it is at least 1."),
        ({}, 2, 0, "processes_per_node is 0: it is at least 1."),
        ({}, 2, 8, "processes_per_node is 8 but gpus is 4: each process needs its own."),
        ({"command": None}, 2, 1, "command is python -m prefect.engine: every node would run the flow run"),
        ({"number": 100}, 101, 1, f"name is prefect-{uuid.UUID(int=7)}-100: pods such as "),
    ],
)
async def test_nonsense_is_refused_in_a_sentence(values, nodes, processes, said):
    with pytest.raises(Refused) as refusal:
        jobset(await job_of(**values), nodes, processes)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)


async def test_processes_without_gpus_are_as_many_as_one_likes():
    made = jobset(await job_of(gpus=0, accelerator=None, node_labels={}), 2, 16)
    assert "--nproc-per-node=16" in only(made)[2]["args"]
    check(made)
