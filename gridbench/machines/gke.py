"""The commands `up gke`, `status gke` and `down gke`."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridbench.machines.cloud import Cloud, Images, Yes, show_lines, show_notes
from gridbench.terminal import confirm, say
from tasks.errors import GridbenchError

if TYPE_CHECKING:  # at run time Google's client is imported by the command: it is slow
    from infra.gke.api import GkeLocation
    from infra.gke.clusters import GkeCluster
    from infra.gke.errors import GkeError
    from infra.gke.plan import ClusterPlan
    from infra.gke.settings import ClusterOptions

Project = Annotated[
    str | None, typer.Option(help="Id of the Google Cloud project; that of your credentials by default")
]
ClusterName = Annotated[str, typer.Option(help="Name of the cluster; a second one needs another")]
Kubeconfig = Annotated[Path, typer.Option(help="File for kubectl's credentials of this cluster")]
Accelerators = Annotated[
    list[str] | None,
    typer.Option(
        "--accelerator",
        help="Accelerator, such as nvidia-l4, or nvidia-l4:2 for two in one machine; can be given several times",
    ),
]
Zone = Annotated[str, typer.Option(help="Zone, such as us-central1-a; not every zone has every accelerator")]
AnyZone = Annotated[str | None, typer.Option(help="Only this zone; by default every zone of the project")]
Spot = Annotated[bool, typer.Option("--spot", help="Spot machines: cheaper, and Google can preempt them")]
MaxNodes = Annotated[int, typer.Option(help="Nodes that can run at once in each pool, which limits spending")]
Driver = Annotated[
    str | None,
    typer.Option(help="LATEST or DEFAULT driver of GKE; by default the one that suits the accelerator"),
]
MaxRunHours = Annotated[
    float | None, typer.Option(help="Hours after which a node ends, whatever runs on it; never by default")
]
MostUsd = Annotated[
    float,
    typer.Option("--max-usd-per-hour", help="Refuse a cluster that could cost more with every pool full"),
]
Network = Annotated[str, typer.Option(help="Network of a new cluster; the one called default by default")]
Subnetwork = Annotated[str, typer.Option(help="Subnetwork in --network; that of the region by default")]
PodRange = Annotated[
    str, typer.Option(help="Secondary range of --subnetwork for pods; one that GKE makes by default")
]
ServiceRange = Annotated[str, typer.Option(help="The same for services")]
NodeAccount = Annotated[
    str, typer.Option(help="Service account that nodes act as; Compute Engine's default one by default")
]
PrivateNodes = Annotated[
    bool | None,
    typer.Option(
        "--private-nodes/--public-nodes",
        help="Nodes without public addresses, which need a Cloud NAT; public by default",
    ),
]
Repository = Annotated[
    str | None,
    typer.Option(help="Where images are pushed to, HOST/NAME; by default in the project's Artifact Registry"),
]
ClusterOnly = Annotated[bool, typer.Option("--cluster-only", help="Only the cluster; the rest by hand")]
AGAIN = "run `gridbench up gke` again, or delete the rest with `gridbench down gke`"
GKE = Cloud("gke", "GKE")
KUBECONFIG = Path(".gridbench/gke.kubeconfig")


def up_gke(
    zone: Zone,
    accelerator: Accelerators = None,
    project: Project = None,
    spot: Spot = False,
    max_nodes: MaxNodes = 1,
    cluster: ClusterName = "gridbench",
    driver: Driver = None,
    max_run_hours: MaxRunHours = None,
    max_usd_per_hour: MostUsd = 20.0,
    network: Network = "",
    subnetwork: Subnetwork = "",
    pod_range: PodRange = "",
    service_range: ServiceRange = "",
    node_account: NodeAccount = "",
    private_nodes: PrivateNodes = None,
    kubeconfig: Kubeconfig = KUBECONFIG,
    image: Images = None,
    repository: Repository = None,
    cluster_only: ClusterOnly = False,
    yes: Yes = False,
) -> None:
    """Make GKE ready for runs: the cluster, rights in it, an image, and the objects on the Prefect API.

    It shows the missing parts and their cost, and asks. Existing pools stay as they are. You can run the command
    again, also after Ctrl-C.
    """
    from infra.gke import kubeconfig as configs
    from infra.gke.api import connect
    from infra.gke.settings import ClusterOptions, check, wished_pools

    names = tuple(accelerator or ())
    options = ClusterOptions(cluster, zone, names, spot, max_nodes, driver, max_run_hours)
    options = replace(options, network=network, subnetwork=subnetwork, node_account=node_account)
    options = replace(options, pod_range=pod_range, service_range=service_range, private_nodes=private_nodes)
    check(options)
    wished_pools(options)
    configs.check_free(kubeconfig)
    location = connect(project, zone)

    def up_cluster() -> None:
        created, failures = _up(location, options, max_usd_per_hour, yes)
        configs.write(kubeconfig, location.project, created)
        _show_access(location.project, created, kubeconfig)
        if failures:
            reasons = "; ".join(map(str, failures))
            raise GridbenchError(f"{len(failures)} of the pools could not be created: {reasons}; {AGAIN}")

    if cluster_only:
        up_cluster()
        return
    from gridbench.setup.gke import make_ready

    make_ready(GKE, location, options, image or (), repository, kubeconfig, up_cluster)


def _up(
    location: "GkeLocation", options: "ClusterOptions", most_usd_per_hour: float, yes: bool
) -> "tuple[GkeCluster, list[GkeError]]":
    """Create the missing parts after asking; return an error for each failed pool."""
    from gridbench.machines import gke_text
    from infra.gke.build import build
    from infra.gke.plan import make_plan

    say(f"project {location.project}, zone {location.zone}: looking at what exists")
    plan = make_plan(location, options, say)
    busy_usd = gke_text.show_plan(plan, location.zone)
    show_notes(plan.notes)
    if plan.cluster and not plan.changes:
        say(f"cluster {plan.name} is complete: nothing to create")
        return plan.cluster, []
    if not busy_usd <= most_usd_per_hour:  # this order refuses NaN, too
        raise GridbenchError(
            f"with every pool full the cluster costs {busy_usd:.2f} USD an hour, and --max-usd-per-hour is "
            f"{most_usd_per_hour:g}: fewer accelerators, a lower --max-nodes, or a higher limit"
        )
    if plan.cluster is None:
        _show_needs(location, plan)
    confirm(f"{'Complete' if plan.cluster else 'Create'} cluster {plan.name}?", yes)
    with GKE.interruptible("up"):
        return build(location, plan, say)


def _show_needs(location: "GkeLocation", plan: "ClusterPlan") -> None:
    """Print needs outside of GKE's API: the account's roles, and a NAT."""
    from infra.gke.commands import grants, outward

    say(
        "Note: nodes act as a service account, which needs these roles unless it is an Editor of the project:"
    )
    show_lines(grants(location.project, plan.wishes.node_account))
    if plan.private:
        say(
            "Note: nodes have no public address. They reach the Prefect API, and registries that are not "
            "Google's, through a Cloud NAT, which is billed separately. Create it once:"
        )
        show_lines(outward(location.project, location.zone, plan.wishes.network))


def _show_access(project: str, cluster: "GkeCluster", kubeconfig: Path) -> None:
    from infra.gke.clusters import READY
    from infra.gke.commands import evening
    from infra.gke.kubeconfig import HINT, PLUGIN

    say(f"\ncluster {cluster.name} in {cluster.zone}: {cluster.status}")
    say(f"  KUBECONFIG={kubeconfig} kubectl get nodes")
    if not shutil.which(PLUGIN):
        say(f"  which needs {PLUGIN}: {HINT}")
    say("It is billed until `gridbench down gke`. To have Google delete it at 20:00 UTC every day as well:")
    show_lines(evening(project, cluster.zone, cluster.name))
    say("Its pools, as a node_selector in deployments/hardware names them:")
    for pool in cluster.pools:
        if pool.accelerator and pool.status in READY:
            say(f'  {{"cloud.google.com/gke-nodepool": "{pool.name}"}}')


def status_gke(project: Project = None, zone: AnyZone = None) -> None:
    """Show Gridbench's GKE clusters: pools, nodes, their cost, and running operations."""
    from gridbench.machines import gke_text
    from infra.gke.api import EVERYWHERE, connect
    from infra.gke.clusters import list_ours
    from infra.gke.operations import under_way, words
    from infra.gke.settings import check_zone

    if zone:
        check_zone(zone)
    location = connect(project, zone or EVERYWHERE)
    clusters, silent_zones = list_ours(location)
    for cluster in clusters:
        gke_text.show_cluster(cluster)
        for operation in under_way(replace(location, zone=cluster.zone), cluster.name):
            say(f"under way: {words(operation)}")
    if not clusters:
        say(f"no cluster of Gridbench's in {zone or f'any zone of {location.project}'}")
    _show_silent(silent_zones)
    good = not silent_zones and all(cluster.well for cluster in clusters)
    raise typer.Exit(0 if good else 1)


def _show_silent(zones: tuple[str, ...]) -> None:
    if zones:
        say(f"not checked: {', '.join(zones)}, which did not answer; try again in some minutes")


def down_gke(
    project: Project = None,
    zone: AnyZone = None,
    cluster: ClusterName = "gridbench",
    kubeconfig: Kubeconfig = KUBECONFIG,
    yes: Yes = False,
) -> None:
    """Delete the GKE cluster, and check that nothing is left.

    You can run the command again, also after Ctrl-C.
    """
    from gridbench.setup.gke import place_of as in_words
    from gridbench.setup.steps import end
    from infra.gke.api import EVERYWHERE, connect
    from infra.gke.clusters import find_ours, list_ours, place_of
    from infra.gke.settings import check_cluster, check_zone

    check_cluster(cluster)
    if zone:
        check_zone(zone)
    location = connect(project, zone or EVERYWHERE)
    silent_zones: tuple[str, ...] = ()
    if zone:
        cluster_location = location if find_ours(location, cluster) else None
    else:
        clusters, silent_zones = list_ours(location)
        cluster_location = place_of(location, cluster, clusters)
    if cluster_location is None:
        say(f"no cluster {cluster} of Gridbench's in {zone or f'any zone of {location.project}'}")
        _show_silent(silent_zones)
        raise typer.Exit(1 if silent_zones else end(GKE, cluster, in_words(location)))
    code = _down(cluster_location, cluster, kubeconfig, yes)
    raise typer.Exit(max(code, end(GKE, cluster, in_words(cluster_location))))


def _down(location: "GkeLocation", name: str, kubeconfig: Path, yes: bool) -> int:
    from infra.gke.kubeconfig import context_name, forget
    from infra.gke.teardown import left, take_down, unseen

    say(f"project {location.project}, zone {location.zone}: this will be deleted")
    show_lines(left(location, name))
    confirm(f"Delete cluster {name}?", yes)
    with GKE.interruptible("down"):
        take_down(location, name, say)
    lines = left(location, name)
    if not lines and forget(kubeconfig, context_name(location.project, location.zone, name)):
        say(f"deleted {kubeconfig}")
    unchecked = [unseen(location.project, name)]
    return GKE.show_left("down", name, f"GKE in {location.zone}", lines, unchecked)
