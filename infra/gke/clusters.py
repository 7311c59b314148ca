"""Clusters as GKE has them, and the label that marks Gridbench's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from google.cloud import container_v1 as gke

from infra.gke.api import GkeLocation
from infra.gke.errors import Foreign, GkeError, Missing, in_words
from infra.gke.pools import SYSTEM_POOL, GkePool, pool_message, read_pool

LABELS = {"managed-by": "gridbench"}  # on every cluster of ours; no other is ever changed or deleted
READY = ("RUNNING", "RECONCILING")  # GKE mends or upgrades something in a RECONCILING one, and it takes pods


@dataclass(frozen=True, slots=True)
class GkeCluster:
    """A cluster as GKE has it.

    Attributes:
        ours: it bears Gridbench's label.
        status: GKE's, such as `RUNNING`.
        reason: why it is not.
        nodes: how many there are now in all pools, as GKE counts them.
        channel: the release channel that it is in; empty for none.
        endpoint: address of the Kubernetes API, without scheme.
        ca: the certificate of that API's authority, base64.
    """

    name: str
    zone: str
    ours: bool
    status: str
    reason: str = ""
    pools: tuple[GkePool, ...] = ()
    nodes: int = 0
    channel: str = ""
    endpoint: str = ""
    ca: str = ""

    @property
    def well(self) -> bool:
        """Return True if the cluster and all its pools can be used."""
        return all(status in READY for status in (self.status, *(pool.status for pool in self.pools)))


def cluster_message(name: str, project: str) -> gke.Cluster:
    """Return a new cluster for the API, with one small pool for GKE's own pods; GPU pools follow."""
    components = gke.MonitoringComponentConfig.Component
    return gke.Cluster(
        name=name,
        resource_labels=LABELS,
        node_pools=[pool_message(SYSTEM_POOL)],
        # no channel, for in one nodes can't be kept from being upgraded while they measure
        release_channel=gke.ReleaseChannel(channel=gke.ReleaseChannel.Channel.UNSPECIFIED),
        workload_identity_config=gke.WorkloadIdentityConfig(workload_pool=f"{project}.svc.id.goog"),
        ip_allocation_policy=gke.IPAllocationPolicy(use_ip_aliases=True),  # which private nodes need
        network_config=gke.NetworkConfig(default_enable_private_nodes=True),
        # GKE's own metrics only: its GPU metrics would sample the GPU that is being measured
        monitoring_config=gke.MonitoringConfig(
            component_config=gke.MonitoringComponentConfig(enable_components=[components.SYSTEM_COMPONENTS]),
            managed_prometheus_config=gke.ManagedPrometheusConfig(enabled=False),
        ),
    )


def read_cluster(message: gke.Cluster) -> GkeCluster:
    """Read a cluster from an answer of the API."""
    channel = gke.ReleaseChannel.Channel(message.release_channel.channel)
    conditions = "; ".join(each.message for each in message.conditions if each.message)
    return GkeCluster(
        name=message.name,
        zone=message.location,
        ours=LABELS.items() <= dict(message.resource_labels).items(),
        status=gke.Cluster.Status(message.status).name,
        reason=" ".join((conditions or message.status_message).split()),
        pools=tuple(read_pool(pool) for pool in message.node_pools),
        nodes=message.current_node_count,
        channel="" if channel == gke.ReleaseChannel.Channel.UNSPECIFIED else channel.name,
        endpoint=message.endpoint,
        ca=message.master_auth.cluster_ca_certificate,
    )


def find(location: GkeLocation, name: str) -> GkeCluster | None:
    """Find a cluster by name, whoever owns it; None if there is none."""
    try:
        with in_words(f"looking at cluster {name}"):
            return read_cluster(location.client.get_cluster(name=location.path(name)))
    except Missing:
        return None


def find_ours(location: GkeLocation, name: str) -> GkeCluster | None:
    """Find Gridbench's cluster by name; None if there is none.

    Raises:
        Foreign: the name is taken by a cluster of somebody else's.
    """
    cluster = find(location, name)
    if cluster and not cluster.ours:
        label = "=".join(next(iter(LABELS.items())))
        raise Foreign(
            f"there is a cluster {name!r} in {location.zone} that Gridbench did not make "
            f"(it has no label {label}): choose another --cluster"
        )
    return cluster


def list_ours(location: GkeLocation) -> tuple[list[GkeCluster], tuple[str, ...]]:
    """List Gridbench's clusters in the project, and the zones that did not answer."""
    with in_words(f"listing the clusters of {location.project}"):
        answer = location.client.list_clusters(parent=location.parent)
    clusters = [read_cluster(message) for message in answer.clusters]
    return [cluster for cluster in clusters if cluster.ours], tuple(answer.missing_zones)


def place_of(location: GkeLocation, name: str, clusters: Sequence[GkeCluster]) -> GkeLocation | None:
    """Return the zone of Gridbench's one cluster with this name; None if there is none.

    Raises:
        GkeError: several zones have one.
    """
    zones = sorted(cluster.zone for cluster in clusters if cluster.name == name)
    if len(zones) > 1:
        raise GkeError(f"there is a cluster {name} in each of {', '.join(zones)}: name one with --zone")
    return replace(location, zone=zones[0]) if zones else None
