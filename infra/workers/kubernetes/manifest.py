"""The Job that a flow run becomes. Pure: nothing is called here."""

import copy
import shlex
from typing import TYPE_CHECKING, Any

from infra.workers.base.job_configuration import OF_THE_WORKER, JobRefused

if TYPE_CHECKING:
    from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration

Manifest = dict[str, Any]

SIGTERM_BEHAVIOUR = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"
GPU = "nvidia.com/gpu"  # the resource, and the key of the taint that keeps others off its nodes
WRITABLE_HOME = "/home/job"
PREFECTS_OWN = (
    "parallelism",
    "completions",
)  # Prefect wants them in a pod's spec, where no cluster knows them


def frame() -> Manifest:
    """What every Job has, whatever is asked: it goes into a work pool's template and can be changed there.

    It keeps to the `restricted` Pod Security Standard.
    """
    container = {
        "name": "prefect-job",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        **dict.fromkeys(PREFECTS_OWN, 1),
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a variable for each service of the namespace
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"annotations": {}, "labels": {}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }


def filled(asked: "KubernetesJobsConfiguration", name: str) -> Manifest:
    """The Job of what is asked: lists of the frame are added to, its other values give way.

    Raises:
        JobRefused: a secret would be sent in plain text.
    """
    job: Manifest = copy.deepcopy(asked.job_manifest)
    metadata, spec = job["metadata"], job["spec"]
    metadata.pop("generateName", None)  # a fixed name, so that a lost answer never makes two Jobs
    metadata |= {"name": name, "namespace": asked.namespace}
    spec |= {
        "backoffLimit": 0,
        "activeDeadlineSeconds": asked.deadline_s,
        "ttlSecondsAfterFinished": asked.ttl_s,
    }
    pod = spec["template"]["spec"]
    for field in PREFECTS_OWN:
        pod.pop(field, None)
    _fill_pod(pod, asked)
    _fill_container(pod["containers"][0], asked)
    for volume, mount in _volumes(asked):
        pod["volumes"] = [*pod.get("volumes", []), volume]
        container = pod["containers"][0]
        container["volumeMounts"] = [*container.get("volumeMounts", []), mount]
    whole: Manifest = _without_nothing(job)
    return whole


def _fill_pod(pod: Manifest, asked: "KubernetesJobsConfiguration") -> None:
    pod["terminationGracePeriodSeconds"] = asked.grace_s
    pod["securityContext"] = pod.get("securityContext", {}) | {"runAsUser": asked.run_as_user}
    optional = {"serviceAccountName": asked.service_account, "priorityClassName": asked.priority}
    pod |= {key: value for key, value in optional.items() if value}
    chosen = {asked.node_labels[choice]: value for choice, value in asked.choices.items()}
    if selector := pod.get("nodeSelector", {}) | asked.node_selector | chosen:
        pod["nodeSelector"] = selector
    if "spot" in asked.node_labels and not asked.spot:
        pod["affinity"] = pod.get("affinity", {}) | {"nodeAffinity": _without(asked.node_labels["spot"])}
    if tolerations := [*pod.get("tolerations", []), *_tolerations(asked)]:
        pod["tolerations"] = tolerations


def _without(label: str) -> Manifest:
    """An affinity to nodes that lack a label: spot nodes are sold for another price."""
    term = {"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _tolerations(asked: "KubernetesJobsConfiguration") -> list[Manifest]:
    """Those asked for; GKE would add the GPUs' own one, and not every cluster does."""
    keys = [GPU] if asked.gpus else []
    keys += [asked.node_labels["spot"]] if asked.spot else []  # its label is the key of its taint as well
    added = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
    return [*added, *(toleration.model_dump(exclude_none=True) for toleration in asked.tolerations)]


def _fill_container(container: Manifest, asked: "KubernetesJobsConfiguration") -> None:
    # Requests equal to limits make the pod "Guaranteed": it is the last to be evicted.
    resources = {
        "cpu": _cpu(asked.vcpus),
        "memory": f"{asked.memory_mib}Mi",
        "ephemeral-storage": f"{asked.ephemeral_storage_mib}Mi" if asked.ephemeral_storage_mib else None,
        GPU: str(asked.gpus) if asked.gpus else None,
    }
    container |= {
        "image": asked.image,
        "imagePullPolicy": asked.image_pull_policy,
        "args": shlex.split(asked.command or ""),
        "env": _env(container.get("env", []), asked),
        "resources": {"requests": dict(resources), "limits": resources},
    }
    if asked.read_only_root:
        container["securityContext"] = container.get("securityContext", {}) | {"readOnlyRootFilesystem": True}


def _cpu(vcpus: float) -> str:
    thousandths = round(vcpus * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def _env(rendered: list[Manifest], asked: "KubernetesJobsConfiguration") -> list[Manifest]:
    """The template's own variables and the run's; secrets are named, never told."""
    env = {entry["name"]: entry for entry in rendered if not OF_THE_WORKER.fullmatch(entry["name"])}
    env |= {name: {"name": name, "value": value} for name, value in asked.env.items() if value is not None}
    for name, place in asked.secrets.items():
        if place:
            secret, _, key = place.partition("/")
            env[name] = {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        elif env.get(name, {}).get("value"):
            field = f"{name.lower()}_secret"
            raise JobRefused(
                f"{field} is not set: {name} is never sent in plain text, so put it into a secret."
            )
    return list(env.values())


def _volumes(asked: "KubernetesJobsConfiguration") -> list[tuple[Manifest, Manifest]]:
    """What the pod can write to beside the image, each volume with where it is mounted."""
    found: list[tuple[Manifest, Manifest]] = []
    if asked.shared_memory_mib:
        memory = {"medium": "Memory", "sizeLimit": f"{asked.shared_memory_mib}Mi"}
        found.append(({"name": "shm", "emptyDir": memory}, {"name": "shm", "mountPath": "/dev/shm"}))
    if asked.read_only_root:
        places = {"tmp": "/tmp", "home": asked.env.get("HOME", WRITABLE_HOME)}
        found += [
            ({"name": name, "emptyDir": {}}, {"name": name, "mountPath": path})
            for name, path in places.items()
            if name == "tmp" or path != places["tmp"]
        ]
    return found


def _without_nothing(value: Any) -> Any:
    """The same without the keys whose value is None: null is no way to say that something is not asked."""
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value
