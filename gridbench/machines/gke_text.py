"""How a GKE cluster is shown: tables of node pools, and what they cost."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from gridbench.machines.aws_text import prices
from gridbench.terminal import console, say, table_of
from tasks.errors import GridbenchError
from tasks.pricing.facts import Fact, Purchase
from tasks.pricing.price import PriceOf, price_of

if TYPE_CHECKING:  # Google's client behind them is slow to import, and other commands need it not
    from infra.gke.clusters import GkeCluster
    from infra.gke.plan import ClusterPlan
    from infra.gke.pools import GkePool

FEE_USD_PER_HOUR = 0.10  # for managing a cluster, cloud.google.com/kubernetes-engine/pricing
DISK_USD_PER_HOUR = 100 * 0.10 / 730  # 100 GB of pd-balanced at 0.10 USD a GB-month in us-central1
COME_AND_GO = "GPU nodes come with pods and go some 10 minutes after the last; until then they are billed."


def usd_per_hour(facts: Sequence[Fact], pool: "GkePool", region: str) -> float | None:
    """What one node of a pool costs with its disk; None where a part of it has no price.

    A spot node without a spot price gets the price on demand, which is above it.
    """
    today = datetime.now(UTC).date()
    purchases: tuple[Purchase, ...] = ("spot", "on-demand") if pool.spot else ("on-demand",)
    for purchase in purchases:
        for what in _ways_to_pay(pool):
            wanted = what.model_copy(update={"region": region, "purchase": purchase})
            try:
                return price_of(wanted, facts, today).usd_per_hour + DISK_USD_PER_HOUR
            except GridbenchError:
                continue
    return None


def _ways_to_pay(pool: "GkePool") -> list[PriceOf]:
    """A host with its GPUs, which Google charges for apart; or both in one, where it has GPUs of its own."""
    from infra.gke.accelerators import accelerators

    whole = PriceOf(provider="gcp", instance=pool.machine)
    if not pool.accelerator:
        return [PriceOf(provider="gcp", host=pool.machine), whole]
    known = accelerators().get(pool.accelerator)
    if known is None:
        return []
    parts = PriceOf(provider="gcp", host=pool.machine, gpu=known.gpu, count=pool.gpus)
    return [parts] if pool.machine.startswith("n1-") else [parts, whole]


def _usd(amount: float | None) -> str:
    return "?" if amount is None else f"{amount:.3f}"


def _row(pool: "GkePool", first: str, usd: float | None) -> list[str]:
    gpus = f"{pool.gpus} {pool.accelerator}" if pool.accelerator else "-"
    nodes = f"{pool.min_nodes} to {pool.max_nodes}"
    row = (pool.name, first, pool.machine, gpus, "spot" if pool.spot else "on-demand", nodes, _usd(usd))
    return [escape(cell) for cell in row]


def show_plan(plan: "ClusterPlan", zone: str) -> None:
    """What would be made and what is there, what it costs idle, and at most."""
    facts, region = prices(), zone.rpartition("-")[0]
    right = ("nodes", "USD/h each")
    columns = ("pool", "", "machine", "GPUs", "purchase", *right)
    table = table_of(f"Cluster {plan.name} in {zone}", *columns, right=right)
    pools = {"there": plan.kept, "make": plan.add, "make again": plan.renew}
    if plan.cluster is None:
        pools["make"] = (plan.system, *plan.add)
    for action, some in pools.items():
        for pool in some:
            table.add_row(*_row(pool, action, usd_per_hour(facts, pool, region)))
    console.print(table)
    _tell_costs([pool for some in pools.values() for pool in some], facts, region)


def _tell_costs(pools: Sequence["GkePool"], facts: Sequence[Fact], region: str) -> None:
    """What the pools cost an hour without a pod, and with every one full."""
    each = {pool: usd_per_hour(facts, pool, region) for pool in pools}
    idle = sum((usd or 0) * pool.min_nodes for pool, usd in each.items()) + FEE_USD_PER_HOUR
    most = sum((usd or 0) * pool.max_nodes for pool, usd in each.items()) + FEE_USD_PER_HOUR
    fixed = [pool for pool in pools if pool.min_nodes]
    say(
        f"Idle: {idle:.2f} USD an hour, {FEE_USD_PER_HOUR:.2f} of it for the cluster's management"
        f"{_without(fixed, each, region)}. {COME_AND_GO}"
    )
    say(f"Busy, with every pool full: at most {most:.2f} USD an hour{_without(pools, each, region)}.")


def _without(pools: Sequence["GkePool"], each: dict["GkePool", float | None], region: str) -> str:
    unknown = sorted({_machine(pool) for pool in pools if each[pool] is None})
    if not unknown:
        return ""
    names = " and ".join(unknown)
    return f", without {names}, unknown to deployments/prices.yaml in {region}"


def _machine(pool: "GkePool") -> str:
    kind = f"{pool.machine} with {pool.gpus} {pool.accelerator}" if pool.accelerator else pool.machine
    return f"{kind} (spot)" if pool.spot else kind


def show_cluster(cluster: "GkeCluster") -> None:
    """A cluster with its pools, its nodes now, and what it costs."""
    facts, region = prices(), cluster.zone.rpartition("-")[0]
    why = f" ({cluster.reason})" if cluster.reason else ""
    say(f"cluster {cluster.name} in {cluster.zone}: {cluster.status}{why}")
    right = ("nodes", "USD/h each")
    table = table_of("Node pools", "pool", "status", "machine", "GPUs", "purchase", *right, right=right)
    for pool in cluster.pools:
        table.add_row(*_row(pool, pool.status, usd_per_hour(facts, pool, region)))
    console.print(table)
    for pool in cluster.pools:
        if pool.reason:
            say(f"pool {pool.name}: {pool.reason}")
    _tell_nodes(cluster)
    _tell_costs(cluster.pools, facts, region)


def _tell_nodes(cluster: "GkeCluster") -> None:
    """How many nodes there are; GKE's API counts them for the whole cluster only."""
    fixed = sum(pool.min_nodes for pool in cluster.pools)
    more = max(cluster.nodes - fixed, 0)
    say(
        f"Nodes now: {cluster.nodes}, {more} of them above the {fixed} that are always there; "
        "`kubectl get nodes -L cloud.google.com/gke-nodepool` shows which"
    )
