"""Admission of new objects: names, defaults and refusals."""

import copy
import json
import re
import uuid
from collections.abc import Callable

from tests.emulators.kube.api_server import quota
from tests.emulators.kube.api_server.objects import (
    KINDS,
    Kind,
    Obj,
    Refused,
    bad_request,
    generated,
    invalid,
    not_found,
)
from tests.emulators.kube.api_server.store import Store
from tests.emulators.kube.api_server.validation import job_errors, label_errors, pod_errors

Warn = Callable[[str], None]
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
FREE_NAMES = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}  # can hold colons
JOB_DEFAULTS = {
    "parallelism": 1,
    "completions": 1,
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "manualSelector": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}
POD_DEFAULTS = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
}
# DefaultTolerationSeconds: a pod stays this long on a node that is not ready or unreachable
NODE_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def name_and_place(store: Store, kind: Kind, namespace: str, obj: Obj) -> None:
    metadata = obj.setdefault("metadata", {})
    for field in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"):
        metadata.pop(field, None)
    if kind.namespaced:
        if metadata.setdefault("namespace", namespace) != namespace:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise bad_request(text)
        if not (home := store.find("namespaces", ("", namespace))):
            raise not_found(KINDS["namespaces"], namespace)
        if home["status"]["phase"] == "Terminating":
            reason = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise Refused(
                403, "Forbidden", f'{kind.full} "{metadata.get("name", "")}" is forbidden: {reason}'
            )
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated(metadata["generateName"])
    if not metadata.get("name"):
        raise invalid(kind, "", ["metadata.name: Required value: name or generateName is required"])


def common_errors(kind: Kind, obj: Obj) -> list[str]:
    name, errors = obj["metadata"]["name"], []
    if kind.plural not in FREE_NAMES and not (SUBDOMAIN.fullmatch(name) and len(name) <= 253):
        errors.append(f"metadata.name: Invalid value: {json.dumps(name)}: {SUBDOMAIN_RULE}")
    return errors + label_errors(obj["metadata"].get("labels") or {}, "metadata.labels")


def admit(store: Store, kind: Kind, namespace: str, obj: Obj, gke: bool = False) -> Obj:
    """Return the object as stored: named, defaulted, checked and within quotas; raise Refused."""
    obj = copy.deepcopy(obj)
    name_and_place(store, kind, namespace, obj)
    errors = common_errors(kind, obj)
    if kind.plural == "jobs":
        default_job(obj)
        errors += job_errors(obj)
    if kind.plural == "pods":
        default_pod(store, obj, gke)
        errors += pod_errors(obj.get("spec") or {}, "spec")
    if kind.plural == "namespaces":
        obj["status"] = {"phase": "Active"}
    if errors:
        raise invalid(kind, obj["metadata"]["name"], errors)
    if kind.plural in ("pods", "jobs") and not taken(store, kind, obj):
        quota.charge(store, kind.plural, obj)
    return obj


def taken(store: Store, kind: Kind, obj: Obj) -> bool:
    """Return whether the name is in use, which is reported before any quota."""
    return store.find(kind.plural, (obj["metadata"]["namespace"], obj["metadata"]["name"])) is not None


def default_job(job: Obj) -> None:
    spec, metadata = job.setdefault("spec", {}), job["metadata"]
    for name, value in JOB_DEFAULTS.items():
        spec.setdefault(name, value)
    uid = metadata["uid"] = str(uuid.uuid4())
    metadata["generation"] = 1
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for prefix in ("batch.kubernetes.io/", ""):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = metadata["name"]
    metadata.setdefault("labels", {k: v for k, v in labels.items()})
    default_pod_spec(template.setdefault("spec", {}), restart=False)
    job["status"] = {}


def default_pod_spec(spec: Obj, restart: bool = True) -> None:
    """Fill a pod spec's defaults; a Job's template has no valid default of restartPolicy."""
    for name, value in POD_DEFAULTS.items():
        if name != "restartPolicy" or restart:
            spec.setdefault(name, copy.copy(value))
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in spec.get("containers") or []:
        tag = str(container.get("image", "")).rpartition("/")[2]
        pinned = "@" in tag or (":" in tag and not tag.endswith(":latest"))
        container.setdefault("imagePullPolicy", "IfNotPresent" if pinned else "Always")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("resources", {})


def default_pod(store: Store, pod: Obj, gke: bool) -> None:
    """Fill a pod's defaults: requests from limits, tolerations, service account; 403 without one."""
    spec, metadata = pod.setdefault("spec", {}), pod["metadata"]
    default_pod_spec(spec)
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    if not store.find("serviceaccounts", (metadata["namespace"], account)):
        text = f'pods "{metadata["name"]}" is forbidden: error looking up service account '
        text += f'{metadata["namespace"]}/{account}: serviceaccount "{account}" not found'
        raise Refused(403, "Forbidden", text, name=metadata["name"], kind="pods")
    for container in spec.get("containers") or []:
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
    tolerations = spec.setdefault("tolerations", [])
    if gke and asks_for_gpu(spec) and GPU_TOLERATION not in tolerations:
        # [doc] docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus: GKE runs ExtendedResourceToleration
        tolerations.append(dict(GPU_TOLERATION))
    keys = {toleration.get("key") for toleration in tolerations}
    tolerations += [dict(toleration) for toleration in NODE_TOLERATIONS if toleration["key"] not in keys]
    spec.setdefault("priority", 0)
    pod["status"] = {"phase": "Pending", "qosClass": quality(spec)}


def asks_for_gpu(spec: Obj) -> bool:
    return any(
        "nvidia.com/gpu" in (container["resources"].get("requests") or {})
        for container in spec.get("containers") or []
    )


def quality(spec: Obj) -> str:
    """Return the QoS class: docs "Pod Quality of Service Classes"."""
    resources = [container["resources"] for container in spec.get("containers") or []]
    counted = [
        {
            which: {n: v for n, v in (r.get(which) or {}).items() if n in ("cpu", "memory")}
            for which in ("limits", "requests")
        }
        for r in resources
    ]
    if not any(r["limits"] or r["requests"] for r in counted):
        return "BestEffort"
    same = all(len(r["limits"]) == 2 and r["limits"] == r["requests"] for r in counted)
    return "Guaranteed" if same else "Burstable"
