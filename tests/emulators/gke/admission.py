"""GKE's refusals of new clusters and pools, and its defaults."""

from datetime import UTC, datetime, timedelta

from google.cloud import container_v1 as gke
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode

from tests.emulators.gke import reasons
from tests.emulators.gke.account import Account, Refusal

Channel = gke.ReleaseChannel.Channel
Exclusion = gke.MaintenanceExclusionOptions
SUPPORT = timedelta(days=300)  # for a minor version about 14 months, of which some are over


def invalid(sentence: str) -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, sentence)


def admit_cluster(account: Account, parent: str, cluster: gke.Cluster) -> gke.Cluster:
    made = gke.Cluster(cluster)
    _, project, _, made.location = parent.split("/")
    if not made.node_pools or not all(pool.name for pool in made.node_pools):
        raise invalid(reasons.NO_NODES)
    # [thread] agent-substrate/substrate #1796, terraform-google-modules/…-kubernetes-engine #1620: without a
    # channel GKE chooses REGULAR
    if "release_channel" not in made:
        made.release_channel = gke.ReleaseChannel(channel=Channel.REGULAR)
    if made.release_channel.channel == Channel.UNSPECIFIED and not account.old_customer:
        raise invalid(reasons.NO_CHANNEL)
    _admit_network(account, project, made)
    _admit_exclusions(made)
    made.node_pools = [admit_pool(account, made, pool) for pool in made.node_pools]
    return made


def _admit_network(account: Account, project: str, cluster: gke.Cluster) -> None:
    # [doc] google-cloud-container 2.67.0, Cluster.network: the one called default, if unset;
    # NetworkConfig.network: the relative name, which GKE fills in
    name = cluster.network.rpartition("/")[2] or "default"
    if name not in account.networks:
        raise invalid(reasons.NO_NETWORK.format(project=project, network=name))
    foreign = "/" in cluster.network and not cluster.network.startswith(f"projects/{project}/")
    policy = cluster.ip_allocation_policy
    if foreign and not (policy.cluster_secondary_range_name and policy.services_secondary_range_name):
        raise invalid(reasons.NO_RANGE)
    cluster.network = name
    cluster.subnetwork = cluster.subnetwork.rpartition("/")[2] or name
    cluster.network_config.network = f"projects/{project}/global/networks/{name}"


def _admit_exclusions(cluster: gke.Cluster) -> None:
    in_channel = cluster.release_channel.channel != Channel.UNSPECIFIED
    for name, exclusion in cluster.maintenance_policy.window.maintenance_exclusions.items():
        options = exclusion.maintenance_exclusion_options
        if options.scope != Exclusion.Scope.NO_UPGRADES and not in_channel:
            raise invalid(reasons.SCOPE_NEEDS_CHANNEL.format(scope=Exclusion.Scope(options.scope).name))
        # [thread] GoogleCloudPlatform/cluster-toolkit #4986: it has an end date, which GKE sets and renews
        if options.end_time_behavior == Exclusion.EndTimeBehavior.UNTIL_END_OF_SUPPORT:
            end = Timestamp()
            end.FromDatetime(datetime.now(UTC) + SUPPORT)
            exclusion.end_time = end
        if not exclusion.end_time or exclusion.end_time <= exclusion.start_time:
            raise invalid(reasons.EXCLUSION_ENDLESS.format(name=name))


def admit_pool(account: Account, cluster: gke.Cluster, pool: gke.NodePool) -> gke.NodePool:
    made, channel = gke.NodePool(pool), Channel(cluster.release_channel.channel)
    # [doc] docs.cloud.google.com/kubernetes-engine/docs/how-to/node-auto-upgrades and node-auto-repair: both are
    # on by default. Repairs can be off in a channel: …/concepts/release-channels, its table
    if "management" not in made:
        made.management = gke.NodeManagement(auto_upgrade=True, auto_repair=True)
    if not made.management.auto_upgrade and channel != Channel.UNSPECIFIED:
        raise invalid(reasons.UPGRADE_OFF.format(channel=channel.name))
    for each in made.config.accelerators:
        if each.accelerator_type in account.absent:
            sentence = reasons.NO_ACCELERATOR.format(accelerator=each.accelerator_type, zone=cluster.location)
            raise invalid(sentence)
    # [doc] google-cloud-container 2.67.0, NodeConfig.service_account: "default", if unset
    made.config.service_account = made.config.service_account or "default"
    if account.accounts is not None and made.config.service_account not in account.accounts:
        raise invalid(reasons.NO_ACCOUNT.format(account=made.config.service_account))
    # [doc] the same, NodeNetworkConfig.enable_private_nodes: the cluster's, if unset
    if "enable_private_nodes" not in made.network_config:
        private = cluster.network_config.default_enable_private_nodes
        made.network_config.enable_private_nodes = private
    return made
