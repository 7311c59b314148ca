"""Machines that are added, cordoned, drained, reclaimed and lost."""

from typing import TYPE_CHECKING

from tests.emulators.kube.api_server.objects import Obj, condition, finished, key_of, set_condition, stamp
from tests.emulators.kube.api_server.store import Change
from tests.emulators.kube.garbage import delete_pod, disrupt, evict
from tests.emulators.kube.nodes import ends
from tests.emulators.kube.nodes.pod_status import close
from tests.emulators.kube.nodes.scheduler import covers

if TYPE_CHECKING:
    from tests.emulators.kube.cluster import Cluster

ALLOCATABLE = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
MARKED = "Marking for deletion Pod {namespace}/{name}"
TAINTED = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
ORPHANED = ("DeletionByPodGC", "PodGC: node no longer exists")


def node(
    name: str, labels: dict[str, str] | None = None, taints: tuple[Obj, ...] = (), **allocatable: str
) -> Obj:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}
    resources = ALLOCATABLE | allocatable
    ready = condition("Ready", reason="KubeletReady", message="kubelet is posting ready status")
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    spec = {"taints": [dict(taint) for taint in taints]} if taints else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


class Nodes:
    """Node lifecycle, taint eviction and pod garbage collection."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster, self.store = cluster, cluster.store

    def on_change(self, change: Change) -> None:
        if change.plural == "nodes" and change.type == "DELETED":
            name = change.object["metadata"]["name"]
            self.cluster.autoscaler.left(name)
            self.cluster.soon(f"orphans {name}", lambda: self.collect_orphans(name))

    def pods(self, name: str) -> list[Obj]:
        pods = self.store.all("pods")
        return [pod for pod in pods if pod["spec"].get("nodeName") == name and not finished(pod)]

    def cordon(self, name: str) -> None:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

        def change(node: Obj) -> None:
            taints = [t for t in node["spec"].get("taints") or [] if t["key"] != taint["key"]]
            node["spec"] |= {"taints": [*taints, taint], "unschedulable": True}

        self.store.update("nodes", ("", name), change)
        word = "NodeNotSchedulable"
        node = self.store.get("nodes", ("", name))
        self.cluster.event(node, word, f"Node {name} status is now: {word}", "kubelet")

    def drain(self, name: str) -> None:
        self.cordon(name)
        for pod in self.pods(name):
            evict(self.store, key_of(pod))

    def reclaim(self, name: str) -> None:
        """Take back a spot machine: its pods get a few seconds, then it is gone."""
        not_ready = condition("Ready", False, reason="KubeletNotReady", message="node is shutting down")
        taint = {"key": NOT_READY, "effect": "NoSchedule"}
        self.mark(name, not_ready, taint)
        for pod in self.pods(name):
            if worker := self.cluster.kubelet.workers.get(pod["metadata"]["uid"]):
                worker.end(ends.shut_down(pod["spec"]["terminationGracePeriodSeconds"]))
        self.remove_later(name)

    def remove_later(self, name: str) -> None:
        """Remove the machine once nothing on it can report any more."""

        def look() -> None:
            uids = {pod["metadata"]["uid"] for pod in self.pods(name)}
            workers = self.cluster.kubelet.workers
            if any(uid in workers and not leaving_silently(workers[uid]) for uid in uids):
                self.cluster.later(0.05, look)
            else:
                self.store.remove("nodes", ("", name))

        self.cluster.later(self.cluster.pace.node_gone_s, look)

    def mark(self, name: str, ready: Obj, taint: Obj) -> None:
        def change(node: Obj) -> None:
            set_condition(node, ready)
            node["spec"]["taints"] = [*(node["spec"].get("taints") or []), taint]

        self.store.update("nodes", ("", name), change)

    def lose(self, name: str, removed: bool = True) -> None:
        """Make the machine silent: nothing on it runs or reports.

        Pods stay but are not Ready; after their toleration they are marked for deletion, and exist until the
        node object is removed.
        """
        unknown = condition(
            "Ready", "Unknown", reason="NodeStatusUnknown", message="Kubelet stopped posting node status."
        )
        taint = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": stamp()}
        self.mark(name, unknown, taint)
        not_ready = condition("Ready", False)
        for pod in self.pods(name):
            if worker := self.cluster.kubelet.workers.get(pod["metadata"]["uid"]):
                worker.end(ends.NODE_LOST)
            told = self.store.update("pods", key_of(pod), lambda pod: set_condition(pod, not_ready))
            self.cluster.event(
                told or pod, "NodeNotReady", "Node is not ready", "node-controller", warning=True
            )
            self.cluster.later(self.patience_s(pod, taint), lambda pod=pod: self.expel(pod))
        if removed:
            longest_s = max((self.patience_s(pod, taint) for pod in self.pods(name)), default=0.0)
            self.cluster.later(longest_s, lambda: self.remove_later(name))

    def patience_s(self, pod: Obj, taint: Obj) -> float:
        matching = [t for t in pod["spec"].get("tolerations") or [] if covers(t, taint)]
        seconds = [t["tolerationSeconds"] for t in matching if "tolerationSeconds" in t]
        return min(seconds, default=0) * self.cluster.pace.toleration_factor

    def expel(self, pod: Obj) -> None:
        namespace, name = key_of(pod)
        found = self.store.find("pods", (namespace, name))
        if not found or found["metadata"]["uid"] != pod["metadata"]["uid"] or finished(found):
            return
        said = MARKED.format(namespace=namespace, name=name)
        self.cluster.event(found, "TaintManagerEviction", said, "taint-eviction-controller")
        disrupt(self.store, (namespace, name), *TAINTED)
        delete_pod(self.store, (namespace, name))

    def collect_orphans(self, name: str) -> None:
        if self.store.find("nodes", ("", name)):
            return
        for pod in self.store.all("pods"):
            if pod["spec"].get("nodeName") == name:
                key = key_of(pod)
                if not finished(pod):
                    disrupt(self.store, key, *ORPHANED)
                    self.store.update("pods", key, lambda pod: close(pod, True, ends.Verdict()))
                delete_pod(self.store, key, 0)


def leaving_silently(worker: object) -> bool:
    verdict = getattr(worker, "verdict", None)
    return bool(verdict and verdict.silent)
