"""The JobSet that runs a Job's container on several nodes, as one group started by torchrun. Pure.

It is held against the published schemas, and no cluster has run it yet. The worker does not create it: a flow
run is one process, and a group is what a flow or a person starts beside it. The cluster needs JobSet:
https://jobset.sigs.k8s.io
"""

import copy
import shlex
from typing import Any

from infra.workers.asked import ENGINE, Refused
from infra.workers.kubernetes_manifest import GPU, Manifest

GROUP = "node"  # the only replicated job: its pods are named <name>-node-0-<node>
PORT = 29500  # https://docs.pytorch.org/docs/stable/elastic/run.html
NAME_OF_SET = "jobset.sigs.k8s.io/jobset-name"  # JobSet's own label of its pods
HOST = "kubernetes.io/hostname"
LONGEST_NAME = 63  # https://kubernetes.io/docs/concepts/overview/working-with-objects/names
SUFFIX = "-abcde"  # as long as what Kubernetes makes a pod's name unique by


def jobset(job: Manifest, nodes: int, processes_per_node: int) -> Manifest:
    """The JobSet (jobset.x-k8s.io/v1alpha2) of a Job that `KubernetesJobsConfiguration.job` made.

    It has the Job's name, place and labels, ends with the first pod that fails, and keeps to the Job's times.

    Raises:
        Refused: the numbers don't fit the Job, its command is Prefect's, or its name is too long.
    """
    name, spec = job["metadata"]["name"], copy.deepcopy(job["spec"])
    pod = spec["template"]["spec"]
    _refuse(name, pod["containers"][0], nodes, processes_per_node)
    # Its time to live is that of the set, which would make a Job that is gone anew.
    times = {"ttlSecondsAfterFinished": spec.pop("ttlSecondsAfterFinished", None)}
    spec |= {"completionMode": "Indexed", "parallelism": nodes, "completions": nodes, "backoffLimit": 0}
    pod["affinity"] = pod.get("affinity", {}) | {"podAntiAffinity": _apart(name)}
    _start(pod["containers"][0], name, nodes, processes_per_node, spec["activeDeadlineSeconds"])
    kept = {key: dict(job["metadata"].get(key, {})) for key in ("labels", "annotations")}
    group = {"name": GROUP, "replicas": 1, "template": {"metadata": kept, "spec": spec}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": copy.deepcopy(job["metadata"]),
        "spec": {
            # A headless service of the set's name, which knows a pod before it is ready. No `coordinator`:
            # its address becomes a label's value, and is too long for one.
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": name},
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [group],
            **{key: value for key, value in times.items() if value is not None},
        },
    }


def _refuse(name: str, container: Manifest, nodes: int, processes: int) -> None:
    for field, value in (("nodes", nodes), ("processes_per_node", processes)):
        if value < 1:
            raise Refused(f"{field} is {value}: it is at least 1.")
    gpus = int(container["resources"]["limits"].get(GPU, 0))
    if gpus and processes > gpus:
        raise Refused(f"processes_per_node is {processes} but gpus is {gpus}: each process needs its own.")
    if container["args"][:3] == shlex.split(ENGINE):
        raise Refused(f"command is {ENGINE}: every node would run the flow run; name what torchrun starts.")
    longest = f"{name}-{GROUP}-0-{nodes - 1}{SUFFIX}"
    if len(longest) > LONGEST_NAME:
        raise Refused(f"name is {name}: pods such as {longest} are to have {LONGEST_NAME} letters at most.")


def _apart(name: str) -> Manifest:
    """One pod of the set a node: a group on fewer nodes measures something else."""
    term = {"labelSelector": {"matchLabels": {NAME_OF_SET: name}}, "topologyKey": HOST}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _start(container: Manifest, name: str, nodes: int, processes: int, patience_s: int) -> None:
    """Put torchrun before the container's command; Kubernetes fills in what stands in $(…).

    patience_s: how long the nodes wait for each other; torchrun's own 600 are soon over where nodes are made.
    """
    master = {"MASTER_ADDR": f"{name}-{GROUP}-0-0.{name}", "MASTER_PORT": str(PORT)}
    others: list[dict[str, Any]] = [entry for entry in container["env"] if entry["name"] not in master]
    container["env"] = [*({"name": key, "value": value} for key, value in master.items()), *others]
    container["args"] = [
        *("python", "-m", "torch.distributed.run"),
        f"--nnodes={nodes}",
        f"--nproc-per-node={processes}",
        "--node-rank=$(JOB_COMPLETION_INDEX)",  # set in every pod of an Indexed Job
        "--rdzv-backend=static",  # ranks go by the node's number, and the first node is the meeting place
        "--rdzv-endpoint=$(MASTER_ADDR):$(MASTER_PORT)",
        f"--rdzv-conf=timeout={patience_s}",
        "--max-restarts=0",  # or a group that lost a rank would be measured again unseen
        "--no-python",
        *container["args"],
    ]
