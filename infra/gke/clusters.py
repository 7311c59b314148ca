"""Clusters as GKE has them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from google.cloud import container_v1 as gke
from google.protobuf.timestamp_pb2 import Timestamp

from infra.gke.api import GkeLocation
from infra.gke.errors import Foreign, GkeError, Missing, in_words
from infra.gke.pools import GkePool, pool_message, read_pool, system_pool
from infra.gke.settings import ClusterOptions

LABELS = {"managed-by": "gridbench"}  # on all of our clusters; others are never changed or deleted
READY = ("RUNNING", "RECONCILING")  # GKE repairs or upgrades a RECONCILING one, and it accepts pods
CHANNEL = gke.ReleaseChannel.Channel.REGULAR  # GKE's own default; new clusters must be in one
EXCLUSION = "gridbench"  # the maintenance exclusion of our clusters
Exclusion = gke.MaintenanceExclusionOptions
NO_NODE_UPGRADES = (Exclusion.Scope.NO_MINOR_OR_NODE_UPGRADES, Exclusion.Scope.NO_UPGRADES)


@dataclass(frozen=True, slots=True)
class GkeCluster:
    """A cluster as GKE describes it.

    Attributes:
        ours: it has Gridbench's label.
        nodes: the number now in all pools, as GKE counts them.
        channel: its release channel; empty for none.
        pinned: GKE does not upgrade nodes: there is no channel, or an exclusion forbids it now.
        private: its nodes get no public addresses.
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
    pinned: bool = True
    private: bool = False
    network: str = ""
    subnetwork: str = ""
    endpoint: str = ""
    ca: str = ""

    @property
    def well(self) -> bool:
        return all(status in READY for status in (self.status, *(pool.status for pool in self.pools)))


def cluster_message(wishes: ClusterOptions, project: str) -> gke.Cluster:
    components = gke.MonitoringComponentConfig.Component
    return gke.Cluster(
        name=wishes.cluster,
        resource_labels=LABELS,
        network=wishes.network,
        subnetwork=wishes.subnetwork,
        node_pools=[pool_message(system_pool(wishes.node_account), kept_by_gke=True)],
        release_channel=gke.ReleaseChannel(channel=CHANNEL),
        maintenance_policy=gke.MaintenancePolicy(window=_no_node_upgrades()),
        workload_identity_config=gke.WorkloadIdentityConfig(workload_pool=f"{project}.svc.id.goog"),
        ip_allocation_policy=gke.IPAllocationPolicy(
            use_ip_aliases=True,  # private nodes need it
            cluster_secondary_range_name=wishes.pod_range,
            services_secondary_range_name=wishes.service_range,
        ),
        network_config=gke.NetworkConfig(default_enable_private_nodes=bool(wishes.private_nodes)),
        # GKE's own metrics only: its GPU metrics would sample the GPU that is being measured
        monitoring_config=gke.MonitoringConfig(
            component_config=gke.MonitoringComponentConfig(enable_components=[components.SYSTEM_COMPONENTS]),
            managed_prometheus_config=gke.ManagedPrometheusConfig(enabled=False),
        ),
    )


def _no_node_upgrades() -> gke.MaintenanceWindow:
    """Return a policy under which GKE patches only the control plane, while it supports the version.

    An upgrade restarts machines that measure. A channel does not allow switching upgrades off for a pool.
    """
    begin = Timestamp()
    begin.FromDatetime(datetime.now(UTC))
    options = Exclusion(
        scope=Exclusion.Scope.NO_MINOR_OR_NODE_UPGRADES,
        end_time_behavior=Exclusion.EndTimeBehavior.UNTIL_END_OF_SUPPORT,
    )
    exclusion = gke.TimeWindow(start_time=begin, maintenance_exclusion_options=options)
    return gke.MaintenanceWindow(maintenance_exclusions={EXCLUSION: exclusion})


def _forbids_node_upgrades(exclusion: gke.TimeWindow) -> bool:
    options, now = exclusion.maintenance_exclusion_options, datetime.now(UTC)
    lasts = options.end_time_behavior == Exclusion.EndTimeBehavior.UNTIL_END_OF_SUPPORT
    begun = not exclusion.start_time or exclusion.start_time <= now
    goes_on = lasts or bool(exclusion.end_time and now < exclusion.end_time)
    return options.scope in NO_NODE_UPGRADES and begun and goes_on


def read_cluster(message: gke.Cluster) -> GkeCluster:
    channel = gke.ReleaseChannel.Channel(message.release_channel.channel)
    in_channel = channel != gke.ReleaseChannel.Channel.UNSPECIFIED
    exclusions = message.maintenance_policy.window.maintenance_exclusions.values()
    conditions = "; ".join(each.message for each in message.conditions if each.message)
    return GkeCluster(
        name=message.name,
        zone=message.location,
        ours=LABELS.items() <= dict(message.resource_labels).items(),
        status=gke.Cluster.Status(message.status).name,
        reason=" ".join((conditions or message.status_message).split()),
        pools=tuple(read_pool(pool) for pool in message.node_pools),
        nodes=message.current_node_count,
        channel=channel.name if in_channel else "",
        pinned=not in_channel or any(map(_forbids_node_upgrades, exclusions)),
        private=message.network_config.default_enable_private_nodes,
        network=message.network,
        subnetwork=message.subnetwork,
        endpoint=message.endpoint,
        ca=message.master_auth.cluster_ca_certificate,
    )


def find(location: GkeLocation, name: str) -> GkeCluster | None:
    try:
        with in_words(f"looking at cluster {name}"):
            return read_cluster(location.client.get_cluster(name=location.path(name)))
    except Missing:
        return None


def find_ours(location: GkeLocation, name: str) -> GkeCluster | None:
    """Raise `Foreign` if the cluster is another owner's."""
    cluster = find(location, name)
    if cluster and not cluster.ours:
        label = "=".join(next(iter(LABELS.items())))
        raise Foreign(
            f"there is a cluster {name!r} in {location.zone} that Gridbench did not make "
            f"(it has no label {label}): choose another --cluster"
        )
    return cluster


def list_ours(location: GkeLocation) -> tuple[list[GkeCluster], tuple[str, ...]]:
    with in_words(f"listing the clusters of {location.project}"):
        answer = location.client.list_clusters(parent=location.parent)
    clusters = [read_cluster(message) for message in answer.clusters]
    return [cluster for cluster in clusters if cluster.ours], tuple(answer.missing_zones)


def place_of(location: GkeLocation, name: str, clusters: Sequence[GkeCluster]) -> GkeLocation | None:
    zones = sorted(cluster.zone for cluster in clusters if cluster.name == name)
    if len(zones) > 1:
        raise GkeError(f"there is a cluster {name} in each of {', '.join(zones)}: name one with --zone")
    return replace(location, zone=zones[0]) if zones else None
