"""The plan of `up`."""

from dataclasses import dataclass, replace

from infra.gke.api import GkeLocation
from infra.gke.clusters import READY, GkeCluster, find_ours
from infra.gke.commands import pin
from infra.gke.errors import GkeError
from infra.gke.operations import Say, settle
from infra.gke.pools import SYSTEM, GkePool, system_pool
from infra.gke.settings import ClusterOptions, wished_pools

BROKEN = ("ERROR", "RUNNING_WITH_ERROR")


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster to make or complete.

    `wishes` not given have the cluster's values; `renew` are failed pools to delete and make again.
    """

    wishes: ClusterOptions
    cluster: GkeCluster | None
    add: tuple[GkePool, ...]
    renew: tuple[GkePool, ...] = ()
    kept: tuple[GkePool, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.wishes.cluster

    @property
    def private(self) -> bool:
        return bool(self.wishes.private_nodes)

    @property
    def changes(self) -> bool:
        return self.cluster is None or bool(self.add or self.renew)

    @property
    def system(self) -> GkePool:
        made = system_pool(self.wishes.node_account)
        return next((pool for pool in self.kept if pool.name == SYSTEM), made)


def make_plan(location: GkeLocation, wishes: ClusterOptions, say: Say) -> ClusterPlan:
    """Wait for operations on the cluster, then return the plan."""
    cluster = find_ours(location, wishes.cluster)
    if cluster and settle(location, wishes.cluster, say):
        say("that failed; now reading the resources that it left")
    cluster = find_ours(location, wishes.cluster) if cluster else None
    if cluster is None:
        return ClusterPlan(wishes, None, wished_pools(wishes))
    _check_ready(cluster)
    settled = _settled(wishes, cluster)
    wished, system = wished_pools(settled), system_pool(settled.node_account)
    there = {pool.name: pool for pool in cluster.pools}
    broken = {name for name, pool in there.items() if pool.status in BROKEN}
    renew = {pool.name: pool for pool in (system, *wished) if pool.name in broken}
    return ClusterPlan(
        settled,
        cluster,
        add=tuple(pool for pool in (system, *wished) if pool.name not in there),
        renew=tuple(renew.values()),
        kept=tuple(pool for pool in cluster.pools if pool.name not in renew),
        notes=(
            *_unmet(wishes, cluster),
            *_notes(cluster, (system, *wished), broken),
            *upgrade_notes(location, cluster),
        ),
    )


def _settled(wishes: ClusterOptions, cluster: GkeCluster) -> ClusterOptions:
    account = next((pool.account for pool in cluster.pools if pool.name == SYSTEM), "")
    return replace(
        wishes,
        network=cluster.network,
        subnetwork=cluster.subnetwork,
        node_account=wishes.node_account or account,
        private_nodes=cluster.private,
    )


def _unmet(wishes: ClusterOptions, cluster: GkeCluster) -> list[str]:
    pairs = (
        ("--network", wishes.network, cluster.network),
        ("--subnetwork", wishes.subnetwork, cluster.subnetwork),
    )
    unmet = [
        f"{option} {value} is not that of the cluster, {theirs}: it stays there"
        for option, value, theirs in pairs
        if value and value.rpartition("/")[2] != theirs.rpartition("/")[2]
    ]
    if wishes.private_nodes not in (None, cluster.private):
        kind = "no public addresses" if cluster.private else "public addresses"
        unmet.append(f"nodes of cluster {cluster.name} have {kind}: that is chosen when a cluster is made")
    return unmet


def upgrade_notes(location: GkeLocation, cluster: GkeCluster) -> list[str]:
    if cluster.pinned:
        return []
    command = pin(location.project, cluster.zone, cluster.name)
    return [
        f"cluster {cluster.name} is in release channel {cluster.channel} without a maintenance exclusion: "
        f"GKE upgrades its nodes, which can end a measurement; `{command}` puts that off"
    ]


def _check_ready(cluster: GkeCluster) -> None:
    if cluster.status in (*READY, "DEGRADED"):
        return
    why = f" ({cluster.reason})" if cluster.reason else ""
    if cluster.status == "ERROR":
        raise GkeError(
            f"cluster {cluster.name} is in ERROR{why}: it can only be deleted; "
            "`gridbench down gke`, then again"
        )
    raise GkeError(
        f"cluster {cluster.name} is busy ({cluster.status}){why}: wait until that has ended, then again"
    )


def _notes(cluster: GkeCluster, wished: tuple[GkePool, ...], broken: set[str]) -> tuple[str, ...]:
    by_name = {pool.name: pool for pool in wished}
    notes = []
    for pool in cluster.pools:
        differs = list(pool.differences(by_name.get(pool.name, pool)))
        if pool.name in broken:
            fate = "made again" if pool.name in by_name else "left alone"
            notes.append(
                f"pool {pool.name} is in {pool.status} ({pool.reason or 'no reason given'}): it is {fate}"
            )
        elif differs:
            delete = f"gcloud container node-pools delete {pool.name} --cluster {cluster.name}"
            notes.append(
                f"pool {pool.name} is there and stays as it is, though {' and '.join(differs)}; "
                f"`{delete} --zone {cluster.zone}`, then again, to have it as asked"
            )
    if cluster.status == "DEGRADED":
        notes.append(f"cluster {cluster.name} is DEGRADED: {cluster.reason or 'no reason given'}")
    return tuple(notes)
