"""Execution of a plan, pool by pool: a shortage costs one pool only."""

from infra.gke.api import GkeLocation
from infra.gke.clusters import GkeCluster, cluster_message, find_ours
from infra.gke.errors import Failed, GkeError, GkeQuotaExceeded, Invalid, NotInZone, Stockout, refusal
from infra.gke.operations import Say, carry_out
from infra.gke.plan import BROKEN, ClusterPlan, upgrade_notes
from infra.gke.pools import GkePool, pool_message
from infra.gke.settings import ClusterOptions

OF_ONE_POOL = (Failed, Invalid, NotInZone, GkeQuotaExceeded, Stockout)  # the next pool might still succeed
CLEAR = "`gridbench down gke` deletes the parts that were created"


def build(location: GkeLocation, plan: ClusterPlan, say: Say) -> tuple[GkeCluster, list[GkeError]]:
    cluster = plan.cluster or _make_cluster(location, plan.wishes, say)
    kept_by_gke = bool(cluster.channel)
    to_make = {pool.name: pool for pool in (*plan.renew, *plan.add)}
    failed: dict[str, GkeError] = {}
    for pool in to_make.values():
        try:
            if pool in plan.renew:
                _delete_pool(location, plan.name, pool, say)
            _make_pool(location, plan.name, pool, kept_by_gke, say)
        except OF_ONE_POOL as error:
            say("  failed")
            failed[pool.name] = error
    cluster = _read(location, plan.name)
    for pool in cluster.pools:
        if pool.status in BROKEN and pool.name in to_make.keys() - failed.keys():
            failed[pool.name] = refusal(f"making node pool {pool.name}", None, pool.reason or pool.status)
    return cluster, list(failed.values())


def _make_cluster(location: GkeLocation, wishes: ClusterOptions, say: Say) -> GkeCluster:
    """Return the new cluster; GKE can choose another release channel."""
    name = wishes.cluster
    doing = f"making cluster {name}"
    say(f"{doing}: takes 5 to 10 minutes")
    message, create = cluster_message(wishes, location.project), location.client.create_cluster
    try:
        carry_out(location, name, doing, lambda: create(parent=location.parent, cluster=message), say)
    except GkeError as error:
        if find_ours(location, name) is None:
            raise
        raise GkeError(f"{error}; {CLEAR}") from None
    cluster = _read(location, name)
    if cluster.status == "ERROR":
        raise GkeError(f"{refusal(doing, None, cluster.reason or cluster.status)}; {CLEAR}")
    for note in upgrade_notes(location, cluster):
        say(f"Note: {note}.")
    return cluster


def _read(location: GkeLocation, name: str) -> GkeCluster:
    cluster = find_ours(location, name)
    if cluster is None:
        raise GkeError(
            f"cluster {name} is gone, because it was deleted; `gridbench up gke` creates a new one"
        )
    return cluster


def _make_pool(location: GkeLocation, cluster: str, pool: GkePool, kept_by_gke: bool, say: Say) -> None:
    doing = f"making node pool {pool.name}"
    say(doing)
    message, path = pool_message(pool, kept_by_gke), location.path(cluster)
    create = location.client.create_node_pool
    carry_out(location, cluster, doing, lambda: create(parent=path, node_pool=message), say)


def _delete_pool(location: GkeLocation, cluster: str, pool: GkePool, say: Say) -> None:
    doing = f"deleting node pool {pool.name}"
    say(doing)
    path, delete = f"{location.path(cluster)}/nodePools/{pool.name}", location.client.delete_node_pool
    carry_out(location, cluster, doing, lambda: delete(name=path), say)
