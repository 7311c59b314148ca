"""gridbench up, status and down gke: a cluster with a node pool for each accelerator, and back to nothing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridbench.terminal import confirm, say
from tasks.errors import GridbenchError

if TYPE_CHECKING:  # imported when a command runs: Google's client is slow to import
    from infra.gke.api import GkeLocation
    from infra.gke.clusters import GkeCluster
    from infra.gke.errors import GkeError
    from infra.gke.plan import ClusterPlan
    from infra.gke.settings import ClusterOptions

Project = Annotated[
    str | None, typer.Option(help="Id of the Google Cloud project; that of your credentials by default")
]
ClusterName = Annotated[str, typer.Option(help="Name of the cluster; a second one needs another")]
Kubeconfig = Annotated[Path, typer.Option(help="File with kubectl's credentials of this cluster alone")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking")]
Accelerators = Annotated[
    list[str] | None,
    typer.Option(
        "--accelerator", help="Such as nvidia-l4, or nvidia-l4:2 for two in one machine; may be repeated"
    ),
]
Zone = Annotated[str, typer.Option(help="Such as us-central1-a; not every zone has every accelerator")]
AnyZone = Annotated[str | None, typer.Option(help="Only this one; every zone of the project by default")]
Spot = Annotated[bool, typer.Option("--spot", help="Machines that Google may take back, for less")]
MaxNodes = Annotated[int, typer.Option(help="At once in each pool, the limit on spending")]
Driver = Annotated[
    str | None, typer.Option(help="LATEST or DEFAULT of GKE's drivers; by default what suits the accelerator")
]
MaxRunHours = Annotated[
    float | None, typer.Option(help="A node ends after so long, whatever runs on it; never by default")
]
AGAIN = "`gridbench up gke` may be repeated, `gridbench down gke` clears it away"
KUBECONFIG = Path(".gridbench/gke.kubeconfig")


@contextmanager
def _plainly() -> Iterator[None]:
    """What Google refuses is a sentence, like every other mistake."""
    from infra.gke.errors import GkeError

    try:
        yield
    except GkeError as error:
        raise GridbenchError(str(error)) from None


def up_gke(
    zone: Zone,
    accelerator: Accelerators = None,
    project: Project = None,
    spot: Spot = False,
    max_nodes: MaxNodes = 1,
    cluster: ClusterName = "gridbench",
    driver: Driver = None,
    max_run_hours: MaxRunHours = None,
    kubeconfig: Kubeconfig = KUBECONFIG,
    yes: Yes = False,
) -> None:
    """Make or complete a GKE cluster: shows what is missing and its cost, asks, waits, writes kubeconfig.

    Pools that are there stay as they are. May be repeated, also after Ctrl-C.
    """
    with _plainly():
        from infra.gke import kubeconfig as configs
        from infra.gke.api import connect
        from infra.gke.settings import ClusterOptions, check, wished_pools

        names = tuple(accelerator or ())
        wishes = ClusterOptions(cluster, zone, names, spot, max_nodes, driver, max_run_hours)
        check(wishes)
        wished_pools(wishes)
        configs.check_free(kubeconfig)
        place = connect(project, zone)
        made, failed = _up(place, wishes, yes)
        configs.write(kubeconfig, place.project, made)
        _tell_cluster(made, kubeconfig)
    if failed:
        whole = "; ".join(map(str, failed))
        raise GridbenchError(f"{len(failed)} of the pools could not be made: {whole}; {AGAIN}")


def _up(place: "GkeLocation", wishes: "ClusterOptions", yes: bool) -> "tuple[GkeCluster, list[GkeError]]":
    """Plan, show, ask, make; the cluster as it is then, and what could not be made."""
    from gridbench.machines import gke_text
    from infra.gke.build import build
    from infra.gke.plan import make_plan

    say(f"project {place.project}, zone {place.zone}: looking at what is there")
    plan = make_plan(place, wishes, say)
    gke_text.show_plan(plan, place.zone)
    for note in plan.notes:
        say(f"Note: {note}.")
    if plan.cluster and not plan.changes:
        say(f"cluster {plan.name} has all of that already: nothing to make")
        return plan.cluster, []
    _tell_way_out(place, plan)
    confirm(f"{'Complete' if plan.cluster else 'Make'} cluster {plan.name}?", yes)
    try:
        return build(place, plan, say)
    except KeyboardInterrupt:
        say("GKE goes on with it; `gridbench status gke` shows it, `gridbench up gke` may be repeated")
        raise


def _tell_way_out(place: "GkeLocation", plan: "ClusterPlan") -> None:
    """Private nodes reach Google's registries, and nothing else without a NAT, which GKE's API can't make."""
    from infra.gke.plan import outward

    if plan.cluster is None:
        say(
            "Note: nodes have no public address. The Prefect API, and registries that are not Google's, are "
            "reached through a Cloud NAT, which is billed apart and made once by:"
        )
        for line in outward(place.project, place.zone):
            say(f"  {line}")


def _tell_cluster(cluster: "GkeCluster", kubeconfig: Path) -> None:
    """Say how to reach the cluster, and how jobs choose a pool."""
    from infra.gke.clusters import READY
    from infra.gke.kubeconfig import HINT, PLUGIN

    say(f"\ncluster {cluster.name} in {cluster.zone}: {cluster.status}")
    say(f"  KUBECONFIG={kubeconfig} kubectl get nodes")
    if not shutil.which(PLUGIN):
        say(f"  which needs {PLUGIN}: {HINT}")
    say("Its pools, as a node_selector in deployments/hardware names them:")
    for pool in cluster.pools:
        if pool.accelerator and pool.status in READY:
            say(f'  {{"cloud.google.com/gke-nodepool": "{pool.name}"}}')


def status_gke(project: Project = None, zone: AnyZone = None) -> None:
    """Show Gridbench's GKE clusters: pools, nodes, what they cost, what is under way."""
    with _plainly():
        from dataclasses import replace

        from gridbench.machines import gke_text
        from infra.gke.api import EVERYWHERE, connect
        from infra.gke.clusters import list_ours
        from infra.gke.operations import under_way, words
        from infra.gke.settings import check_zone

        if zone:
            check_zone(zone)
        place = connect(project, zone or EVERYWHERE)
        clusters, silent = list_ours(place)
        for cluster in clusters:
            gke_text.show_cluster(cluster)
            for operation in under_way(replace(place, zone=cluster.zone), cluster.name):
                say(f"under way: {words(operation)}")
        if not clusters:
            say(f"no cluster of Gridbench's in {zone or f'any zone of {place.project}'}")
        _tell_silent(silent)
    well = not silent and all(cluster.well for cluster in clusters)
    raise typer.Exit(0 if well else 1)


def _tell_silent(zones: tuple[str, ...]) -> None:
    if zones:
        say(f"not checked: {', '.join(zones)}, which did not answer; try again in some minutes")


def down_gke(
    project: Project = None,
    zone: AnyZone = None,
    cluster: ClusterName = "gridbench",
    kubeconfig: Kubeconfig = KUBECONFIG,
    yes: Yes = False,
) -> None:
    """Take the GKE cluster down to nothing, and check that nothing is left.

    May be repeated, also after Ctrl-C.
    """
    with _plainly():
        from infra.gke.api import EVERYWHERE, connect
        from infra.gke.clusters import find_ours, list_ours, place_of
        from infra.gke.settings import check_cluster, check_zone

        check_cluster(cluster)
        if zone:
            check_zone(zone)
        place = connect(project, zone or EVERYWHERE)
        silent: tuple[str, ...] = ()
        if not zone:
            clusters, silent = list_ours(place)
            found = place_of(place, cluster, clusters)
        else:
            found = place if find_ours(place, cluster) else None
        if found is None:
            say(f"no cluster {cluster} of Gridbench's in {zone or f'any zone of {place.project}'}")
            _tell_silent(silent)
            raise typer.Exit(1 if silent else 0)
        code = _down(found, cluster, kubeconfig, yes)
    raise typer.Exit(code)


def _down(place: "GkeLocation", name: str, kubeconfig: Path, yes: bool) -> int:
    """Show, ask, delete, look; the exit code: 1 where something is left."""
    from infra.gke.kubeconfig import context_name, forget
    from infra.gke.teardown import left, take_down, unseen

    say(f"project {place.project}, zone {place.zone}: this will be deleted")
    for line in left(place, name):
        say(f"  {line}")
    confirm(f"Delete cluster {name}?", yes)
    try:
        take_down(place, name, say)
    except KeyboardInterrupt:
        say("GKE goes on with it; `gridbench status gke` shows it, `gridbench down gke` may be repeated")
        raise
    lines = left(place, name)
    if not lines and forget(kubeconfig, context_name(place.project, place.zone, name)):
        say(f"deleted {kubeconfig}")
    say(f"not checked: {unseen(place.project, name)}")
    if not lines:
        say(f"down; nothing of {name} is left in GKE in {place.zone}")
        return 0
    say(f"down, but this is left in {place.zone}; `gridbench down gke` may be repeated:")
    for line in lines:
        say(f"  {line}")
    return 1
