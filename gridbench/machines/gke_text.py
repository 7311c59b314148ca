"""Tables of a GKE cluster."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from gridbench.machines.cloud import prices, usd_cell
from gridbench.terminal import console, say, table_of
from tasks.errors import GridbenchError
from tasks.pricing.facts import Fact, Purchase
from tasks.pricing.price import PriceOf, price_of

if TYPE_CHECKING:  # they import Google's client, which is slow, and other commands do without
    from infra.gke.clusters import GkeCluster
    from infra.gke.plan import ClusterPlan
    from infra.gke.pools import GkePool

HOURS_PER_MONTH = 730  # as Google counts a month
# For managing a cluster, cloud.google.com/kubernetes-engine/pricing. Each billing account gets a month of it
# free, as a credit of 74.40 USD for zonal clusters.
FEE_USD_PER_HOUR = 0.10
DISK_USD_PER_HOUR = 100 * 0.10 / HOURS_PER_MONTH  # 100 GB of pd-balanced, 0.10 USD a GB-month in us-central1
ADDRESS_USD_PER_HOUR = 0.005  # a public IPv4 address in use, cloud.google.com/vpc/network-pricing
NAT_USD_PER_HOUR = 0.0014  # for each machine behind it, cloud.google.com/nat/pricing; also a public address
NAT_USD_PER_GIB = 0.045  # in and out
COME_AND_GO = (
    "GPU nodes start with a pod and end about 10 minutes after the last one; until then they are billed."
)


def usd_per_hour(facts: Sequence[Fact], pool: "GkePool", region: str, private: bool) -> float | None:
    """Return one node's cost with disk and internet access; None if a part has no price.

    A spot node without a spot price gets the on-demand price, an upper bound.
    """
    machine = _machine_usd(facts, pool, region)
    way_out = NAT_USD_PER_HOUR if private else ADDRESS_USD_PER_HOUR
    return None if machine is None else machine + DISK_USD_PER_HOUR + way_out


def _machine_usd(facts: Sequence[Fact], pool: "GkePool", region: str) -> float | None:
    today = datetime.now(UTC).date()
    purchases: tuple[Purchase, ...] = ("spot", "on-demand") if pool.spot else ("on-demand",)
    for purchase in purchases:
        for billed in _ways_to_pay(pool):
            priced = billed.model_copy(update={"region": region, "purchase": purchase})
            try:
                return price_of(priced, facts, today).usd_per_hour
            except GridbenchError:
                continue
    return None


def _ways_to_pay(pool: "GkePool") -> list[PriceOf]:
    """Return GKE's ways of charging: for host and GPUs, or for a machine with its GPUs."""
    from infra.gke.accelerators import accelerators

    whole = PriceOf(provider="gcp", instance=pool.machine)
    if not pool.accelerator:
        return [PriceOf(provider="gcp", host=pool.machine), whole]
    accelerator = accelerators().get(pool.accelerator)
    if accelerator is None:
        return []
    parts = PriceOf(provider="gcp", host=pool.machine, gpu=accelerator.gpu, count=pool.gpus)
    return [parts] if pool.machine.startswith("n1-") else [parts, whole]


def _row(pool: "GkePool", first: str, usd: float | None) -> list[str]:
    gpus = f"{pool.gpus} {pool.accelerator}" if pool.accelerator else "-"
    nodes = f"{pool.min_nodes} to {pool.max_nodes}"
    row = (pool.name, first, pool.machine, gpus, "spot" if pool.spot else "on-demand", nodes, usd_cell(usd))
    return [escape(cell) for cell in row]


def show_plan(plan: "ClusterPlan", zone: str) -> float:
    """Return an hour's cost with every pool full."""
    facts, region = prices(), zone.rpartition("-")[0]
    right = ("nodes", "USD/h each")
    columns = ("pool", "action", "machine", "GPUs", "purchase", *right)
    table = table_of(f"Cluster {plan.name} in {zone}", *columns, right=right)
    pools = {"exists": plan.kept, "create": plan.add, "create again": plan.renew}
    if plan.cluster is None:
        pools["create"] = (plan.system, *plan.add)
    for action, group in pools.items():
        for pool in group:
            table.add_row(*_row(pool, action, usd_per_hour(facts, pool, region, plan.private)))
    console.print(table)
    return _show_costs([pool for group in pools.values() for pool in group], facts, region, plan.private)


def _show_costs(pools: Sequence["GkePool"], facts: Sequence[Fact], region: str, private: bool) -> float:
    costs = {pool: usd_per_hour(facts, pool, region, private) for pool in pools}
    cluster = FEE_USD_PER_HOUR + (ADDRESS_USD_PER_HOUR if private else 0)
    idle = sum((usd or 0) * pool.min_nodes for pool, usd in costs.items()) + cluster
    busy = sum((usd or 0) * pool.max_nodes for pool, usd in costs.items()) + cluster
    fixed = [pool for pool in pools if pool.min_nodes]
    gaps = _without(fixed, costs, region)
    month, free = idle * HOURS_PER_MONTH, (idle - FEE_USD_PER_HOUR) * HOURS_PER_MONTH
    say(
        f"Idle: {idle:.2f} USD an hour, {month:.0f} USD a month{gaps}, until `gridbench down gke`: "
        f"{_parts(fixed, facts, region, private)}. Google's free tier pays the management of one zonal "
        f"cluster of a billing account: then it is {free:.0f} USD a month."
    )
    say(COME_AND_GO)
    say(f"Busy, with every pool full: at most {busy:.2f} USD an hour{_without(pools, costs, region)}.")
    return busy


def _parts(fixed: Sequence["GkePool"], facts: Sequence[Fact], region: str, private: bool) -> str:
    """Return an idle month's costs, such as `management 73.00, 1 e2-standard-2 48.92`."""
    nodes = sum(pool.min_nodes for pool in fixed)
    hourly = {"management": FEE_USD_PER_HOUR}
    hourly |= {
        f"{pool.min_nodes} {pool.machine}": pool.min_nodes * (_machine_usd(facts, pool, region) or 0)
        for pool in fixed
    }
    hourly["disks"] = nodes * DISK_USD_PER_HOUR
    if private:
        hourly["Cloud NAT"] = ADDRESS_USD_PER_HOUR + nodes * NAT_USD_PER_HOUR
    else:
        hourly["public addresses"] = nodes * ADDRESS_USD_PER_HOUR
    parts = ", ".join(f"{name} {usd * HOURS_PER_MONTH:.2f}" for name, usd in hourly.items())
    return parts + (f", and {NAT_USD_PER_GIB} a GiB through the NAT" if private else "")


def _without(pools: Sequence["GkePool"], costs: dict["GkePool", float | None], region: str) -> str:
    unknown = set()
    for pool in pools:
        if costs[pool] is None:
            gpus = f" with {pool.gpus} {pool.accelerator}" if pool.accelerator else ""
            unknown.add(f"{pool.machine}{gpus}{' (spot)' if pool.spot else ''}")
    names = " and ".join(sorted(unknown))
    return f", without {names}, unknown to deployments/prices.yaml in {region}" if unknown else ""


def show_cluster(cluster: "GkeCluster") -> None:
    facts, region = prices(), cluster.zone.rpartition("-")[0]
    reason = f" ({cluster.reason})" if cluster.reason else ""
    say(f"cluster {cluster.name} in {cluster.zone}: {cluster.status}{reason}")
    right = ("nodes", "USD/h each")
    table = table_of("Node pools", "pool", "status", "machine", "GPUs", "purchase", *right, right=right)
    for pool in cluster.pools:
        table.add_row(*_row(pool, pool.status, usd_per_hour(facts, pool, region, cluster.private)))
    console.print(table)
    for pool in cluster.pools:
        if pool.reason:
            say(f"pool {pool.name}: {pool.reason}")
    fixed = sum(pool.min_nodes for pool in cluster.pools)  # GKE's API counts nodes for the whole cluster only
    say(
        f"Nodes now: {cluster.nodes} ({fixed} always on, {max(cluster.nodes - fixed, 0)} for pods); "
        "`kubectl get nodes -L cloud.google.com/gke-nodepool` shows which"
    )
    _show_costs(cluster.pools, facts, region, cluster.private)
