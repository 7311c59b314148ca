"""One run of the GKE smoke test: requests within the limits, answers, and the clean-up."""

import time
from dataclasses import dataclass, field
from typing import Any

from google.api_core.exceptions import GoogleAPICallError
from google.cloud import container_v1 as gke

from infra.gke.api import GkeLocation
from infra.gke.clusters import cluster_message, find, find_ours
from infra.gke.errors import GkeError, failure, in_words
from infra.gke.pools import pool_message
from infra.gke.settings import ClusterOptions
from infra.gke.teardown import left, take_down
from tests.emulators.gke.smoke_cases import (
    ACCEPTED,
    NAME,
    Case,
    after,
    before,
    busy,
    differences,
    during,
    gpu_pool,
    options,
)
from tests.emulators.smoke_command import tell

POLL_S = 5.0
USD_PER_HOUR = 0.20  # management 0.10, an e2-standard-2 0.067, its disk 0.014, its address 0.005, rounded up


class LimitReached(Exception):
    pass


@dataclass
class Meter:
    """Limits of minutes and USD, and their use. A cluster counts from the call that makes it."""

    max_minutes: float
    max_usd: float
    began: float = field(default_factory=time.monotonic)
    made: dict[str, float] = field(default_factory=dict)

    def counts(self, name: str) -> None:
        """Count a cluster of this name from now on."""
        self.made.setdefault(name, time.monotonic())

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.began) / 60

    @property
    def usd(self) -> float:
        return sum(time.monotonic() - since for since in self.made.values()) / 3600 * USD_PER_HOUR

    def check(self) -> None:
        if not self.minutes <= self.max_minutes:  # as nothing is of NaN
            raise LimitReached(f"{self.max_minutes:g} minutes are over")
        if not self.usd <= self.max_usd:
            raise LimitReached(f"{self.max_usd:g} USD are spent, by estimate")


@dataclass
class Smoke:
    location: GkeLocation
    wishes: ClusterOptions
    meter: Meter
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, list[Any]] = field(default_factory=dict)  # seen and believed value

    def observe(self) -> None:
        """Send every request, and make the cluster in between."""
        for case in before(self.location, self.wishes):
            self.ask(case)
        self.make_cluster()
        for case in during(self.location, self.wishes):
            self.ask(case)
        self.make_pool()

    def ask(self, case: Case) -> None:
        self.meter.check()
        self._send(case)

    def _send(self, case: Case) -> None:
        if case.method == "create_cluster":
            self.meter.counts(case.makes)  # before the call: its answer can be lost
        try:
            getattr(self.location.client, case.method)(**case.request)
            answer = {"status": ACCEPTED, "words": ""}
        except GoogleAPICallError as error:
            code = error.grpc_status_code
            answer = {"status": code.name if code else "UNKNOWN", "words": error.message or ""}
            if case.makes != NAME and find(self.location, case.makes) is None:
                self.meter.made.pop(case.makes, None)
        self.seen[case.name] = answer
        tell(f"{case.name}: {answer['status']} {answer['words']}")

    def make_cluster(self) -> None:
        """Make the cluster like `up`, and compare GKE's version."""
        self.meter.counts(NAME)
        message = cluster_message(options(self.wishes), self.location.project)
        with in_words(f"making cluster {NAME}"):
            operation = self.location.client.create_cluster(parent=self.location.parent, cluster=message)
        self.follow(operation, "making the cluster")
        cluster = find_ours(self.location, NAME)
        if cluster is None:
            raise GkeError(f"cluster {NAME} is gone: somebody deleted it")
        raw = self.location.client.get_cluster(name=self.location.path(NAME))
        exclusions = raw.maintenance_policy.window.maintenance_exclusions.values()
        system = raw.node_pools[0]
        self.fact("the channel", cluster.channel, "REGULAR")
        self.fact("an exclusion keeps nodes from being upgraded", cluster.pinned, True)
        self.fact("GKE has given it an end", all(bool(each.end_time) for each in exclusions), True)
        self.fact("nodes are upgraded and repaired", _management(system), [True, True])
        self.fact("nodes without public addresses", system.network_config.enable_private_nodes, False)
        self.fact("the nodes' account", system.config.service_account, "default")
        self.fact("the cluster is well", cluster.well, True)

    def make_pool(self) -> None:
        message = pool_message(gpu_pool(self.wishes), kept_by_gke=True)
        with in_words("making a GPU pool"):
            operation = self.location.client.create_node_pool(
                parent=self.location.path(NAME), node_pool=message
            )
        self.ask(busy(self.location))
        self.follow(operation, "making a GPU pool of no nodes")
        cluster = find_ours(self.location, NAME)
        pools = {pool.name: pool for pool in cluster.pools} if cluster else {}
        pool = pools.get(message.name)
        self.fact("a GPU pool of no nodes is RUNNING", pool.status if pool else "none", "RUNNING")
        wanted = gpu_pool(self.wishes)
        differs = list(pool.differences(wanted)) if pool else ["there is none"]
        self.fact("what differs from the pool that was asked for", differs, [])

    def follow(self, operation: gke.Operation, doing: str) -> None:
        """Wait for an operation within the limits; raise its error as ours."""
        began = time.monotonic()
        while operation.status != gke.Operation.Status.DONE:
            self.meter.check()
            time.sleep(POLL_S)
            with in_words(f"following {doing}"):
                name = f"{self.location.parent}/operations/{operation.name}"
                operation = self.location.client.get_operation(name=name)
        tell(f"{doing}: {time.monotonic() - began:.0f} s")
        if error := failure(operation, doing):
            raise error

    def fact(self, name: str, seen: Any, believed: Any) -> None:
        self.facts[name] = [seen, believed]

    def clean_up(self) -> None:
        """Delete every cluster that might exist, each despite errors of others."""
        errors = []
        for name in list(self.meter.made):
            try:
                take_down(self.location, name, tell)
                lines = left(self.location, name)
                errors += [f"left: {line}" for line in lines]
            except GkeError as error:
                errors.append(str(error))
        if NAME in self.meter.made and not errors:
            self._send(after(self.location))
        if errors:
            raise GkeError(f"{'; '.join(errors)}; `gridbench down gke --cluster {NAME}` deletes a cluster")

    @property
    def cases(self) -> list[Case]:
        first, second = before(self.location, self.wishes), during(self.location, self.wishes)
        return [*first, *second, busy(self.location), after(self.location)]

    @property
    def different(self) -> list[str]:
        facts = [
            f"{name}: {seen!r}, the emulator has {believed!r}"
            for name, (seen, believed) in self.facts.items()
            if seen != believed
        ]
        return differences(self.cases, self.seen) + facts


def _management(pool: gke.NodePool) -> list[bool]:
    return [pool.management.auto_upgrade, pool.management.auto_repair]
