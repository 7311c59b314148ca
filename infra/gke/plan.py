"""The plan of `up`: made from the options and from the present cluster."""

from dataclasses import dataclass

from infra.gke.api import GkeLocation
from infra.gke.clusters import READY, GkeCluster, find_ours
from infra.gke.errors import GkeError
from infra.gke.operations import Say, settle
from infra.gke.pools import SYSTEM, SYSTEM_POOL, GkePool
from infra.gke.settings import ClusterOptions, wished_pools

BROKEN = ("ERROR", "RUNNING_WITH_ERROR")


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster to be made or completed.

    Attributes:
        cluster: the one there is, or None.
        add: pools to be made.
        renew: pools that failed: deleted and made again.
        kept: pools that are there and stay as they are.
        notes: sentences that the user should read before agreeing.
    """

    name: str
    cluster: GkeCluster | None
    add: tuple[GkePool, ...]
    renew: tuple[GkePool, ...] = ()
    kept: tuple[GkePool, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Return True if anything is to be done."""
        return self.cluster is None or bool(self.add or self.renew)

    @property
    def system(self) -> GkePool:
        """Return the pool of GKE's own pods, as it is or will be."""
        return next((pool for pool in self.kept if pool.name == SYSTEM), SYSTEM_POOL)


def make_plan(location: GkeLocation, wishes: ClusterOptions, say: Say) -> ClusterPlan:
    """Work out what is missing; what is under way on the cluster is waited for first.

    Raises:
        GkeError: a wish can't be met, or the cluster is in no state to be completed, or not ours.
    """
    wished = wished_pools(wishes)
    cluster = find_ours(location, wishes.cluster)
    if cluster and settle(location, wishes.cluster, say):
        say("that failed; now reading what it left")
    cluster = find_ours(location, wishes.cluster) if cluster else None
    if cluster is None:
        return ClusterPlan(wishes.cluster, None, wished)
    _check_ready(cluster)
    there = {pool.name: pool for pool in cluster.pools}
    broken = {name for name, pool in there.items() if pool.status in BROKEN}
    renew = {pool.name: pool for pool in wished if pool.name in broken}
    if SYSTEM not in there or SYSTEM in broken:
        renew[SYSTEM] = SYSTEM_POOL
    return ClusterPlan(
        wishes.cluster,
        cluster,
        add=tuple(pool for pool in (SYSTEM_POOL, *wished) if pool.name not in there),
        renew=tuple(pool for pool in renew.values() if pool.name in there),
        kept=tuple(pool for pool in cluster.pools if pool.name not in renew),
        notes=_notes(cluster, wished, broken),
    )


def _check_ready(cluster: GkeCluster) -> None:
    """Refuse a cluster that no pool can be added to."""
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
            fate = "made again" if pool.name in by_name or pool.name == SYSTEM else "left alone"
            notes.append(
                f"pool {pool.name} is in {pool.status} ({pool.reason or 'no reason given'}): it is {fate}"
            )
        elif differs:
            delete = f"gcloud container node-pools delete {pool.name} --cluster {cluster.name}"
            notes.append(
                f"pool {pool.name} is there and stays as it is, though {' and '.join(differs)}; "
                f"`{delete} --zone {cluster.zone}`, then again, to have it as asked"
            )
    if cluster.channel:
        notes.append(
            f"cluster {cluster.name} is in release channel {cluster.channel}: there GKE upgrades and repairs "
            "nodes, which may end a measurement"
        )
    if cluster.status == "DEGRADED":
        notes.append(f"cluster {cluster.name} is DEGRADED: {cluster.reason or 'no reason given'}")
    return tuple(notes)


def outward(project: str, zone: str) -> tuple[str, ...]:
    """Return the gcloud commands that give nodes without public addresses a way out."""
    where = f"--project {project} --region {zone.rpartition('-')[0]}"
    nat = "gcloud compute routers nats create gridbench-nat --router gridbench-nat"
    return (
        f"gcloud compute routers create gridbench-nat --network default {where}",
        f"{nat} --auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges {where}",
    )
