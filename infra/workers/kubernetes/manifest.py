"""The manifest of a flow run's Job."""

import copy
import shlex
from collections.abc import Mapping
from typing import Any

from infra.workers.base.environment import SECRETS, credential_fault, reach_fault, secrets
from infra.workers.base.job_configuration import JobRefused
from infra.workers.kubernetes.fields import KubernetesJobFields

Manifest = dict[str, Any]
Env = Mapping[str, str | None]

SIGTERM_BEHAVIOUR = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"
GPU = "nvidia.com/gpu"  # the resource, and the key of the taint that keeps other pods off its nodes
WRITABLE_HOME = "/home/job"
# Prefect writes them into a pod's spec; clusters do not accept them there
PREFECTS_OWN = ("parallelism", "completions")


def frame() -> Manifest:
    """Return the frame for the work pool's template, in which users can change it.

    It follows the `restricted` Pod Security Standard.
    """
    container = {
        "name": "prefect-job",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        **dict.fromkeys(PREFECTS_OWN, 1),
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # otherwise a variable for each service of the namespace
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"annotations": {}, "labels": {}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }


def filled(
    fields: KubernetesJobFields, name: str, manifest: Manifest, env: Env, command: str | None
) -> Manifest:
    """Return the complete Job: the fields add to the frame's lists and replace its other values.

    `JobRefused` if a secret would be sent in plain text.
    """
    job: Manifest = copy.deepcopy(manifest)
    metadata, spec = job["metadata"], job["spec"]
    metadata.pop("generateName", None)  # a fixed name, so that a lost answer never makes two Jobs
    metadata |= {"name": name, "namespace": fields.namespace}
    spec |= {
        "backoffLimit": 0,
        "activeDeadlineSeconds": fields.deadline_s,
        "ttlSecondsAfterFinished": fields.ttl_s,
    }
    pod = spec["template"]["spec"]
    for field in PREFECTS_OWN:
        pod.pop(field, None)
    _fill_pod(pod, fields)
    _fill_container(pod["containers"][0], fields, env, command)
    for volume, mount in _volumes(fields, env):
        pod["volumes"] = [*pod.get("volumes", []), volume]
        container = pod["containers"][0]
        container["volumeMounts"] = [*container.get("volumeMounts", []), mount]
    whole: Manifest = _without_nothing(job)
    return whole


def _fill_pod(pod: Manifest, fields: KubernetesJobFields) -> None:
    pod["terminationGracePeriodSeconds"] = fields.grace_s
    pod["securityContext"] = pod.get("securityContext", {}) | {"runAsUser": fields.run_as_user}
    if fields.image_pull_secrets:
        named = [{"name": name} for name in fields.image_pull_secrets]
        pod["imagePullSecrets"] = [*pod.get("imagePullSecrets", []), *named]
    optional = {"serviceAccountName": fields.service_account, "priorityClassName": fields.priority}
    pod |= {key: value for key, value in optional.items() if value}
    chosen = {fields.node_labels[choice]: value for choice, value in fields.choices.items()}
    if selector := pod.get("nodeSelector", {}) | fields.node_selector | chosen:
        pod["nodeSelector"] = selector
    if "spot" in fields.node_labels and not fields.spot:  # spot nodes have another price
        term = {"matchExpressions": [{"key": fields.node_labels["spot"], "operator": "DoesNotExist"}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        pod["affinity"] = pod.get("affinity", {}) | {"nodeAffinity": required}
    keys = [GPU] if fields.gpus else []  # GKE tolerates this taint by itself, other clusters do not
    keys += [fields.node_labels["spot"]] if fields.spot else []  # its label is the key of its taint as well
    added = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
    added += [toleration.model_dump(exclude_none=True) for toleration in fields.tolerations]
    if tolerations := [*pod.get("tolerations", []), *added]:
        pod["tolerations"] = tolerations


def _fill_container(container: Manifest, fields: KubernetesJobFields, env: Env, command: str | None) -> None:
    thousandths = round(fields.vcpus * 1000)
    # Requests equal to limits make the pod "Guaranteed": it is the last to be evicted.
    resources = {
        "cpu": f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000),
        "memory": f"{fields.memory_mib}Mi",
        "ephemeral-storage": f"{fields.ephemeral_storage_mib}Mi" if fields.ephemeral_storage_mib else None,
        GPU: str(fields.gpus) if fields.gpus else None,
    }
    container |= {
        "image": fields.image,
        "imagePullPolicy": fields.image_pull_policy,
        "args": shlex.split(command or ""),
        "env": _variables(container.get("env", []), fields, env),
        "resources": {"requests": dict(resources), "limits": resources},
    }
    if fields.read_only_root:
        container["securityContext"] = container.get("securityContext", {}) | {"readOnlyRootFilesystem": True}


def _variables(rendered: list[Manifest], fields: KubernetesJobFields, env: Env) -> list[Manifest]:
    variables = {entry["name"]: entry for entry in rendered}
    variables |= {name: {"name": name, "value": value} for name, value in env.items() if value is not None}
    for name, reference in fields.secrets.items():
        if reference:
            secret, _, key = reference.partition("/")
            variables[name] = {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
    values = {name: entry.get("value") for name, entry in variables.items()}
    if unkept := next(iter(secrets(values)), None):
        field = f"{unkept.lower()}_secret"
        raise JobRefused(f"{field} is not set: {unkept} is never sent in plain text: store it in a secret.")
    if fault := credential_fault(values) or reach_fault(values.get("PREFECT_API_URL")):
        raise JobRefused(fault)
    return [entry for name, entry in variables.items() if name not in SECRETS or "valueFrom" in entry]


def _volumes(fields: KubernetesJobFields, env: Env) -> list[tuple[Manifest, Manifest]]:
    volumes: list[tuple[Manifest, Manifest]] = []
    if fields.shared_memory_mib:
        memory = {"medium": "Memory", "sizeLimit": f"{fields.shared_memory_mib}Mi"}
        volumes.append(({"name": "shm", "emptyDir": memory}, {"name": "shm", "mountPath": "/dev/shm"}))
    if fields.read_only_root:
        paths = {"tmp": "/tmp", "home": env.get("HOME", WRITABLE_HOME)}
        volumes += [
            ({"name": name, "emptyDir": {}}, {"name": name, "mountPath": path})
            for name, path in paths.items()
            if name == "tmp" or path != paths["tmp"]
        ]
    return volumes


def _without_nothing(value: Any) -> Any:
    """Drop None, which the API would read as null."""
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value
