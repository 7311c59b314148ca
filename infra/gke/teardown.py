"""Deletion of a cluster. Safe to repeat."""

from infra.gke.api import GkeLocation
from infra.gke.clusters import find_ours
from infra.gke.errors import Failed, Foreign, GkeError
from infra.gke.operations import Say, carry_out, settle, under_way, words


def take_down(location: GkeLocation, name: str, say: Say) -> None:
    if find_ours(location, name) is None:
        return
    settle(location, name, say)
    if find_ours(location, name) is None:  # the operation under way was its deletion
        return
    doing = f"deleting cluster {name}"
    say(f"{doing} with its pools: takes 5 minutes")
    try:
        carry_out(
            location, name, doing, lambda: location.client.delete_cluster(name=location.path(name)), say
        )
    except Failed as error:
        raise GkeError(f"{error}; run `gridbench down gke` again") from None


def left(location: GkeLocation, name: str) -> list[str]:
    try:
        cluster = find_ours(location, name)
    except Foreign:  # another owner has taken the name since
        return []
    lines = []
    if cluster:
        pools = ", ".join(pool.name for pool in cluster.pools) or "none"
        lines.append(
            f"cluster {name} in {cluster.zone}: {cluster.status}, pools {pools}; nodes: {cluster.nodes}"
        )
        lines += [f"operation under way: {words(each)}" for each in under_way(location, name)]
    return lines


def unseen(project: str, name: str) -> str:
    look = f"gcloud compute {{}} list --project {project}"
    return (
        "disks of volume claims, load balancers' addresses and a Cloud NAT of your own are "
        f"Compute Engine's: `{look.format('disks')} --filter labels.goog-k8s-cluster-name={name}`, "
        f"`{look.format('addresses')}`, `{look.format('routers')}`"
    )
