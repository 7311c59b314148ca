"""The scheduler: find a node for every pod, or the sentence that gives the reason."""

from collections import Counter, defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING

from tests.emulators.kube.api_server.objects import (
    Key,
    Obj,
    condition,
    finished,
    key_of,
    labels_of,
    leaving,
    set_condition,
)
from tests.emulators.kube.api_server.quantities import quantity, requests_of
from tests.emulators.kube.api_server.store import Change

if TYPE_CHECKING:
    from tests.emulators.kube.cluster import Cluster

COMPONENT = "default-scheduler"
# pkg/scheduler/framework/plugins: the reasons, and whether preemption could help against them
CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY = "Too many pods"
NO_HELP, NO_VICTIMS = (
    "Preemption is not helpful for scheduling",
    "No preemption victims found for incoming pod",
)
MAX_PODS = 110  # the kubelet's default

Usage = dict[str, dict[str, Decimal]]
Refusal = tuple[list[str], bool]  # the reasons of a node, and whether it is too small whatever leaves it


class Scheduler:
    """Look at all pods without a node after each relevant change."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster, self.store = cluster, cluster.store
        self.pending: set[Key] = set()

    def on_change(self, change: Change) -> None:
        if change.plural == "pods":
            pod, key = change.object, key_of(change.object)
            waiting = change.type != "DELETED" and not pod["spec"].get("nodeName")
            if waiting and not leaving(pod) and not finished(pod):
                self.pending.add(key)
            else:
                self.pending.discard(key)
            if change.type == "ADDED" or not waiting:
                self.look_soon()
        elif change.plural == "nodes":
            self.look_soon()

    def look_soon(self) -> None:
        if self.pending:
            self.cluster.soon("schedule", self.look, self.cluster.pace.bind_s)

    def look(self) -> None:
        usage, counts = self.usage()
        pods = [self.store.get("pods", key) for key in self.pending]
        for pod in sorted(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"])):
            refusals: list[Refusal] = []
            wanted = requests_of(pod)
            for node in self.store.all("nodes"):
                name = node["metadata"]["name"]
                if not (refusal := unfit(pod, node, wanted, usage[name], counts[name])):
                    self.bind(pod, name)
                    counts[name] += 1
                    for resource, amount in wanted.items():
                        usage[name][resource] += amount
                    break
                refusals.append((refusal, too_small(node, wanted)))
            else:
                self.refuse(pod, sentence(refusals))

    def usage(self) -> tuple[Usage, Counter[str]]:
        used: Usage = defaultdict(lambda: defaultdict(Decimal))
        counts: Counter[str] = Counter()
        for pod in self.store.objects["pods"].values():
            if (node := pod["spec"].get("nodeName")) and not finished(pod):
                counts[node] += 1
                for resource, amount in requests_of(pod).items():
                    used[node][resource] += amount
        return used, counts

    def bind(self, pod: Obj, node: str) -> None:
        namespace, name = key_of(pod)

        def place(pod: Obj) -> None:
            pod["spec"]["nodeName"] = node
            set_condition(pod, condition("PodScheduled"))

        bound = self.store.update("pods", (namespace, name), place)
        said = f"Successfully assigned {namespace}/{name} to {node}"
        self.cluster.event(bound or pod, "Scheduled", said, COMPONENT)

    def refuse(self, pod: Obj, message: str) -> None:
        """Report once why the pod has no node, and again when that changes."""
        new = condition("PodScheduled", False, reason="Unschedulable", message=message)
        told = self.store.update("pods", key_of(pod), lambda pod: set_condition(pod, new))
        if told is not pod:
            self.cluster.event(told or pod, "FailedScheduling", message, COMPONENT, warning=True)


def unfit(pod: Obj, node: Obj, wanted: dict[str, Decimal], used: dict[str, Decimal], count: int) -> list[str]:
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    if node["spec"].get("unschedulable"):
        return [CORDONED]
    taints = node["spec"].get("taints") or []
    if any(t["effect"] != "PreferNoSchedule" and not tolerated(t, tolerations) for t in taints):
        return [TAINTED]
    labels = labels_of(node)
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return [UNSELECTED]
    free = {name: quantity(value) for name, value in node["status"]["allocatable"].items()}
    if count >= int(free.get("pods", MAX_PODS)):
        return [TOO_MANY]
    return [
        f"Insufficient {name}"
        for name, amount in wanted.items()
        if amount and amount > free.get(name, Decimal(0)) - used.get(name, Decimal(0))
    ]


def too_small(node: Obj, wanted: dict[str, Decimal]) -> bool:
    """Return whether an empty node is too small. Source: NodeResourcesFit since 1.34, kubernetes #131345."""
    whole = {name: quantity(value) for name, value in node["status"]["allocatable"].items()}
    return any(amount > whole.get(name, Decimal(0)) for name, amount in wanted.items())


def tolerated(taint: Obj, tolerations: list[Obj]) -> bool:
    return any(covers(toleration, taint) for toleration in tolerations)


def covers(toleration: Obj, taint: Obj) -> bool:
    """Source: docs "Taints and Tolerations"."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same = toleration.get("value") or "", taint.get("value") or ""
    return toleration.get("key") == taint["key"] and same[0] == same[1]


def sentence(refusals: list[Refusal]) -> str:
    if not refusals:
        return "no nodes available to schedule pods"
    nodes = f"0/{len(refusals)} nodes are available: "
    said = Counter(reason for reasons, _ in refusals for reason in reasons)
    full_now = [
        not never and any(reason.startswith("Insufficient") or reason == TOO_MANY for reason in reasons)
        for reasons, never in refusals
    ]
    helpless = Counter(NO_VICTIMS if full else NO_HELP for full in full_now)
    return f"{nodes}{listed(said)}. no new claims to deallocate, preemption: {nodes}{listed(helpless)}."


def listed(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
