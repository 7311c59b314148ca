"""The cluster autoscaler: node pools that grow for pods without a node."""

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.emulators.kube.api_server.objects import Obj
from tests.emulators.kube.api_server.quantities import quantity, requests_of
from tests.emulators.kube.api_server.store import Change
from tests.emulators.kube.nodes.nodes import node
from tests.emulators.kube.nodes.scheduler import unfit

if TYPE_CHECKING:
    from tests.emulators.kube.cluster import Cluster

COMPONENT = "cluster-autoscaler"
# [thread] events that users of GKE quote, word for word; [doc] the meaning of FailedScaleUp:
# docs.cloud.google.com/kubernetes-engine/docs/troubleshooting/cluster-autoscaler-scale-up
OUT_OF_STOCK = (
    "Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources. Pod is at "
    "risk of not being scheduled."
)
# [doc] kubernetes/autoscaler, cluster-autoscaler/core/scaleup/orchestrator and its event processor: pools that are
# skipped, before any pod is compared with them; [thread] 2i2c-org/infrastructure #2185, kubernetes/autoscaler
# #5692: the whole sentence
REFUSED = "pod didn't trigger scale-up: "
BACKOFF, AT_ITS_LIMIT = "in backoff after failed scale-up", "max node group size reached"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"


class Pool:
    """Equal nodes, named `<name>-<n>`. out_of_stock: the cloud cannot supply them."""

    def __init__(
        self, name: str, after_s: float, at_most: int, out_of_stock: bool, template: dict[str, Any]
    ) -> None:
        self.name, self.after_s, self.at_most, self.out_of_stock = name, after_s, at_most, out_of_stock
        self.template, self.made, self.backs_off = template, 0, False
        self.coming: dict[str, dict[str, Decimal]] = {}  # node on its way → its used resources

    def node(self, name: str) -> Obj:
        return node(name, **self.template)

    @property
    def skipped(self) -> str:
        return BACKOFF if self.backs_off else AT_ITS_LIMIT if self.made >= self.at_most else ""


class Autoscaler:
    """Look at each pod that the scheduler refused."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster, self.store = cluster, cluster.store
        self.pools: list[Pool] = []
        self.helped: set[str] = set()

    def on_change(self, change: Change) -> None:
        if change.plural == "pods" and self.pools and change.type == "MODIFIED" and refused(change.object):
            self.cluster.soon("autoscale", self.look)

    def look(self) -> None:
        for pod in self.store.all("pods"):
            uid = pod["metadata"]["uid"]
            if refused(pod) and uid not in self.helped and self.help(pod):
                self.helped.add(uid)

    def help(self, pod: Obj) -> bool:
        wanted = requests_of(pod)
        fitting = [pool for pool in self.pools if not unfit(pod, pool.node("new"), wanted, {}, 0)]
        for pool in fitting:
            if self.share(pool, wanted):
                return True
        for pool in fitting:
            if not pool.skipped:
                self.triggered(pool, pod)
                if not pool.out_of_stock:
                    self.grow(pool, wanted)
                    return True
                self.cluster.event(pod, "FailedScaleUp", OUT_OF_STOCK, COMPONENT, warning=True)
                pool.backs_off = True
        reasons = Counter(pool.skipped or UNSELECTED for pool in self.pools)
        said = REFUSED + ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        self.cluster.event(pod, "NotTriggerScaleUp", said, COMPONENT)
        return False

    def share(self, pool: Pool, wanted: dict[str, Decimal]) -> bool:
        free = {name: quantity(value) for name, value in pool.node("new")["status"]["allocatable"].items()}
        for taken in pool.coming.values():
            sums = {name: taken.get(name, Decimal(0)) + amount for name, amount in wanted.items()}
            if all(amount <= free.get(name, Decimal(0)) for name, amount in sums.items()):
                taken.update(sums)
                return True
        return False

    def triggered(self, pool: Pool, pod: Obj) -> None:
        # [doc] kubernetes/autoscaler, cluster-autoscaler/FAQ.md and its event processor
        said = f"pod triggered scale-up: [{{{pool.name} {pool.made}->{pool.made + 1} (max: {pool.at_most})}}]"
        self.cluster.event(pod, "TriggeredScaleUp", said, COMPONENT)

    def grow(self, pool: Pool, wanted: dict[str, Decimal]) -> None:
        pool.made += 1
        name = f"{pool.name}-{pool.made}"
        pool.coming[name] = dict(wanted)

        def arrive() -> None:
            del pool.coming[name]
            self.store.add("nodes", pool.node(name))

        self.cluster.later(pool.after_s, arrive)

    def left(self, name: str) -> None:
        for pool in self.pools:
            if name.startswith(f"{pool.name}-"):
                pool.at_most += 1
        self.helped.clear()


def refused(pod: Obj) -> bool:
    conditions = pod["status"].get("conditions") or []
    return not pod["spec"].get("nodeName") and any(c.get("reason") == "Unschedulable" for c in conditions)
