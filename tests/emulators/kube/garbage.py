"""Deletion: the effect of a DELETE, and of the garbage collector after it."""

from typing import TYPE_CHECKING

from tests.emulators.kube.api_server.objects import (
    KINDS,
    Key,
    Obj,
    Refused,
    condition,
    finished,
    key_of,
    leaving,
    set_condition,
    stamp,
)
from tests.emulators.kube.api_server.store import Change, Store

if TYPE_CHECKING:
    from tests.emulators.kube.cluster import Cluster

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
# pkg/registry/batch/job/strategy.go: batch/v1 orphans without a policy, and warns
ORPHAN_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)


def check_preconditions(plural: str, obj: Obj, options: Obj) -> None:
    """Raise 409 if a DELETE names another uid or version."""
    metadata = obj["metadata"]
    for field, said in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = (options.get("preconditions") or {}).get(field)
        if wanted and wanted != metadata[field]:
            text = (
                f'Operation cannot be fulfilled on {KINDS[plural].full} "{metadata["name"]}": Precondition '
            )
            text += f"failed: {said} in precondition: {wanted}, {said} in object meta: {metadata[field]}"
            raise Refused(409, "Conflict", text, name=metadata["name"], kind=plural)


def delete_pod(store: Store, key: Key, grace_s: int | None = None) -> Obj | None:
    """Request a pod's end; without a node, or once ended, it goes at once."""
    pod = store.get("pods", key)
    if grace_s is None:
        grace_s = pod["spec"]["terminationGracePeriodSeconds"]
    if not pod["spec"].get("nodeName") or finished(pod):
        grace_s = 0
    if leaving(pod) and grace_s >= pod["metadata"]["deletionGracePeriodSeconds"]:
        return pod

    def mark(pod: Obj) -> None:
        pod["metadata"].update(deletionTimestamp=stamp(grace_s), deletionGracePeriodSeconds=grace_s)

    return store.update("pods", key, mark)


def delete_job(store: Store, key: Key, policy: str) -> Obj | None:
    """Request a Job's end; the policy says when its pods go."""
    store.get("jobs", key)

    def mark(job: Obj) -> None:
        metadata = job["metadata"]
        metadata.setdefault("deletionTimestamp", stamp())
        metadata.setdefault("deletionGracePeriodSeconds", 0)
        finalizer = FINALIZERS.get(policy)
        if finalizer and finalizer not in metadata.get("finalizers", []):
            metadata["finalizers"] = [*metadata.get("finalizers", []), finalizer]

    return store.update("jobs", key, mark)


def evict(store: Store, key: Key, grace_s: int | None = None) -> None:
    disrupt(store, key, "EvictionByEvictionAPI", "Eviction API: evicting")
    delete_pod(store, key, grace_s)


def disrupt(store: Store, key: Key, reason: str, message: str) -> None:
    """Set the pod's disruption condition. Source: docs "Pod disruption conditions"."""
    new = condition("DisruptionTarget", reason=reason, message=message)
    store.update("pods", key, lambda pod: set_condition(pod, new))


class Collector:
    def __init__(self, cluster: "Cluster") -> None:
        self.cluster, self.store = cluster, cluster.store

    def on_change(self, change: Change) -> None:
        if change.plural == "jobs" and (change.type == "DELETED" or leaving(change.object)):
            key, uid = key_of(change.object), change.object["metadata"]["uid"]
            self.cluster.soon(f"collect {uid}", lambda: self.collect(key, uid))
        if change.plural == "pods" and change.type == "DELETED":
            for owner in change.object["metadata"].get("ownerReferences") or []:
                key, uid = (key_of(change.object)[0], owner["name"]), owner["uid"]
                self.cluster.soon(f"collect {uid}", lambda key=key, uid=uid: self.collect(key, uid))
        if change.object["metadata"].get("namespace") or change.plural == "namespaces":
            self.end_namespace(change)

    def collect(self, key: Key, uid: str) -> None:
        job, pods = self.store.find("jobs", key), self.store.pods_of(uid)
        if job and job["metadata"]["uid"] != uid:
            job = None
        finalizers = job["metadata"].get("finalizers", []) if job else []
        if job and not leaving(job):
            return
        if ORPHAN in finalizers:
            for pod in pods:
                self.store.update("pods", key_of(pod), disown)
            self.store.update("jobs", key, lambda job: job["metadata"]["finalizers"].remove(ORPHAN))
            return
        for pod in pods:
            if not leaving(pod):
                delete_pod(self.store, key_of(pod))
        if FOREGROUND in finalizers and not self.store.pods_of(uid):
            self.store.update("jobs", key, lambda job: job["metadata"]["finalizers"].remove(FOREGROUND))

    def end_namespace(self, change: Change) -> None:
        name = change.object["metadata"].get("namespace") or change.object["metadata"]["name"]
        home = self.store.find("namespaces", ("", name))
        if home and leaving(home):
            self.cluster.soon(f"namespace {name}", lambda: self.empty(name))

    def empty(self, name: str) -> None:
        if not self.store.find("namespaces", ("", name)):
            return
        for job in self.store.all("jobs", name):
            delete_job(self.store, key_of(job), "Background")
        for pod in self.store.all("pods", name):
            delete_pod(self.store, key_of(pod))
        if self.store.all("pods", name):
            return
        for plural, kind in KINDS.items():
            if kind.namespaced:
                for obj in self.store.all(plural, name):
                    self.store.remove(plural, key_of(obj))
        self.store.remove("namespaces", ("", name))


def disown(pod: Obj) -> None:
    pod["metadata"].pop("ownerReferences", None)
