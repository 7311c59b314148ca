"""Options of `up`, and their node pools."""

import re
from dataclasses import dataclass

from infra.gke.accelerators import shape_of
from infra.gke.errors import GkeError
from infra.gke.pools import GkePool, pool_name

CLUSTER = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")  # GKE's rule
ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")
REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"  # Compute Engine's rule
IN_PROJECT = r"projects/[a-z0-9.:-]+"
SECONDARY = re.compile(NAME)
NETWORK = re.compile(rf"({IN_PROJECT}/global/networks/)?{NAME}")
SUBNETWORK = re.compile(rf"({IN_PROJECT}/regions/(?P<region>[a-z0-9-]+)/subnetworks/)?{NAME}")
ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]*@([a-z0-9.-]+\.iam|developer)\.gserviceaccount\.com")
DRIVERS = ("LATEST", "DEFAULT")
MOST_NODES = 1000  # GKE's limit for a node pool
RUN_HOURS = (0.5, 168.0)  # less is too short for a node's start and a suite; flex-start ends after seven days


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The user's options.

    Attributes:
        accelerators: GKE's names, with `:COUNT` for several GPUs in one machine.
        max_nodes: in each pool at once.
        driver: `LATEST` or `DEFAULT`; None for the accelerator's usual one.
        max_run_hours: after which a node ends; None for never.
        network: a name, or the path of another project's; empty for `default`.
        subnetwork: the same; empty for the network's one in the zone's region.
        pod_range, service_range: the subnetwork's secondary ranges; empty for those that GKE makes.
        node_account: empty for that of the cluster's other nodes, or Compute Engine's default.
        private_nodes: None for the cluster's present setting, or public ones.
    """

    cluster: str
    zone: str
    accelerators: tuple[str, ...]
    spot: bool = False
    max_nodes: int = 1
    driver: str | None = None
    max_run_hours: float | None = None
    network: str = ""
    subnetwork: str = ""
    pod_range: str = ""
    service_range: str = ""
    node_account: str = ""
    private_nodes: bool | None = None


def check_cluster(name: str) -> None:
    if not CLUSTER.fullmatch(name):
        raise GkeError(
            f"--cluster {name!r} must be 1 to 40 small letters, digits and dashes, begin with a letter "
            "and not end with a dash"
        )


def check_zone(zone: str) -> None:
    if REGION.fullmatch(zone):
        raise GkeError(f"--zone {zone!r} is a region: name one of its zones, such as {zone}-a")
    if not ZONE.fullmatch(zone):
        raise GkeError(f"--zone {zone!r} is not a zone, such as us-central1-a")


def check(wishes: ClusterOptions) -> None:
    check_cluster(wishes.cluster)
    check_zone(wishes.zone)
    if not wishes.accelerators:
        raise GkeError("--accelerator is missing: name at least one, such as nvidia-l4")
    if not 1 <= wishes.max_nodes <= MOST_NODES:
        raise GkeError(f"--max-nodes is {wishes.max_nodes}: a node pool can have 1 to {MOST_NODES}")
    if wishes.driver is not None and wishes.driver not in DRIVERS:
        raise GkeError(f"--driver {wishes.driver!r} must be one of {', '.join(DRIVERS)}")
    low, high = RUN_HOURS
    if wishes.max_run_hours is not None and not low <= wishes.max_run_hours <= high:
        raise GkeError(
            f"--max-run-hours is {wishes.max_run_hours:g}: a node can run {low:g} to {high:g} hours"
        )
    _check_network(wishes)
    _check_shared(wishes)
    if wishes.node_account and not ACCOUNT.fullmatch(wishes.node_account):
        raise GkeError(
            f"--node-account {wishes.node_account!r} must be a service account's address, such as "
            "gridbench-node@my-project.iam.gserviceaccount.com"
        )


def _check_network(wishes: ClusterOptions) -> None:
    if wishes.network and not NETWORK.fullmatch(wishes.network):
        raise GkeError(
            f"--network {wishes.network!r} must be a network's name, such as gridbench, "
            "or projects/HOST-PROJECT/global/networks/NAME"
        )
    if not wishes.subnetwork:
        return
    match, region = SUBNETWORK.fullmatch(wishes.subnetwork), wishes.zone.rpartition("-")[0]
    if match is None:
        raise GkeError(
            f"--subnetwork {wishes.subnetwork!r} must be a subnetwork's name, such as gridbench, "
            f"or projects/HOST-PROJECT/regions/{region}/subnetworks/NAME"
        )
    if match["region"] and match["region"] != region:
        raise GkeError(
            f"--subnetwork {wishes.subnetwork} is in {match['region']}: "
            f"a cluster in {wishes.zone} needs one in {region}"
        )
    if not wishes.network:
        raise GkeError(f"--subnetwork {wishes.subnetwork} needs the --network that it is in")


def _check_shared(wishes: ClusterOptions) -> None:
    """Raise `GkeError` if GKE would have to change another project's network."""
    ranges = {"--pod-range": wishes.pod_range, "--service-range": wishes.service_range}
    for option, name in ranges.items():
        if name and not SECONDARY.fullmatch(name):
            raise GkeError(f"{option} {name!r} must be the name of a secondary range, such as pods")
    if "/" in wishes.network and not (wishes.subnetwork and all(ranges.values())):
        raise GkeError(
            f"--network {wishes.network} is another project's, where GKE makes nothing: name a --subnetwork, "
            "and two secondary ranges of it with --pod-range and --service-range"
        )


def wished_pools(wishes: ClusterOptions) -> tuple[GkePool, ...]:
    named = [_parsed(text) for text in wishes.accelerators]
    for name, gpus in named:
        if named.count((name, gpus)) > 1:
            raise GkeError(f"--accelerator {name}:{gpus} is named twice")
    return tuple(_pool(wishes, name, gpus) for name, gpus in named)


def _pool(wishes: ClusterOptions, name: str, gpus: int) -> GkePool:
    accelerator, shape = shape_of(name, gpus, wishes.spot)
    return GkePool(
        name=pool_name(name, gpus, wishes.spot),
        machine=shape.machine,
        accelerator=name,
        gpus=gpus,
        spot=wishes.spot,
        max_nodes=wishes.max_nodes,
        driver=wishes.driver or accelerator.driver,
        max_run_s=round((wishes.max_run_hours or 0) * 3600),
        account=wishes.node_account,
    )


def _parsed(text: str) -> tuple[str, int]:
    name, colon, count = text.strip().partition(":")
    if colon and not (count.isascii() and count.isdigit()):
        raise GkeError(
            f"--accelerator {text!r}: the number of GPUs in one machine follows the colon, such as {name}:2"
        )
    return name, int(count) if colon else 1
