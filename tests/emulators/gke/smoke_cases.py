"""Requests of the smoke test to GKE, with the emulator's answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud import container_v1 as gke

from infra.gke.api import GkeLocation
from infra.gke.clusters import cluster_message
from infra.gke.pools import GkePool, pool_message
from infra.gke.settings import ClusterOptions, wished_pools
from tests.emulators.gke import reasons

NAME = "gridbench-smoke"
NO_SUCH = "gridbench-has-no-such"
GONE_ACCELERATOR = "nvidia-tesla-k80"  # which Google has retired everywhere
ACCEPTED = "ACCEPTED"


@dataclass(frozen=True, slots=True)
class Case:
    """A request that GKE should refuse.

    Attributes:
        method: of the client.
        request: its arguments.
        makes: the cluster that exists if GKE accepts it.
        status: the emulator's code.
        believed: its sentence in tests/emulators/gke/reasons.py, by name.
    """

    name: str
    method: str
    request: Mapping[str, Any]
    makes: str
    status: str
    believed: str


def options(wishes: ClusterOptions, name: str = NAME, **more: Any) -> ClusterOptions:
    return ClusterOptions(name, wishes.zone, wishes.accelerators, network=wishes.network, **more)


def before(location: GkeLocation, wishes: ClusterOptions) -> list[Case]:
    refused = {
        "no_channel": (options(wishes, f"{NAME}-old"), "NO_CHANNEL"),
        "no_network": (ClusterOptions(f"{NAME}-net", wishes.zone, (), network=NO_SUCH), "NO_NETWORK"),
        "no_account": (
            options(
                wishes, f"{NAME}-sa", node_account=f"{NO_SUCH}@{location.project}.iam.gserviceaccount.com"
            ),
            "NO_ACCOUNT",
        ),
    }
    messages = {name: cluster_message(wanted, location.project) for name, (wanted, _) in refused.items()}
    messages["no_channel"].release_channel.channel = gke.ReleaseChannel.Channel.UNSPECIFIED
    messages["no_channel"].maintenance_policy = gke.MaintenancePolicy()
    return [
        Case(
            name,
            "create_cluster",
            {"parent": location.parent, "cluster": messages[name]},
            wanted.cluster,
            "INVALID_ARGUMENT",
            believed,
        )
        for name, (wanted, believed) in refused.items()
    ]


def during(location: GkeLocation, wishes: ClusterOptions) -> list[Case]:
    again = {"parent": location.parent, "cluster": cluster_message(options(wishes), location.project)}
    gone = GkePool("gone", "n1-standard-8", GONE_ACCELERATOR, 1, driver="DEFAULT")
    return [
        Case("exists", "create_cluster", again, NAME, "ALREADY_EXISTS", "EXISTS"),
        _pool(location, "upgrade_off", gpu_pool(wishes), False, "UPGRADE_OFF"),
        _pool(location, "no_accelerator", gone, True, "NO_ACCELERATOR"),
    ]


def busy(location: GkeLocation) -> Case:
    cpu = GkePool("second", "e2-medium")
    request = {"parent": location.path(NAME), "node_pool": pool_message(cpu, kept_by_gke=True)}
    return Case("busy", "create_node_pool", request, NAME, "FAILED_PRECONDITION", "BUSY")


def after(location: GkeLocation) -> Case:
    return Case("not_found", "get_cluster", {"name": location.path(NAME)}, NAME, "NOT_FOUND", "NOT_FOUND")


def gpu_pool(wishes: ClusterOptions) -> GkePool:
    return wished_pools(wishes)[0]


def _pool(location: GkeLocation, name: str, pool: GkePool, kept_by_gke: bool, believed: str) -> Case:
    request = {"parent": location.path(NAME), "node_pool": pool_message(pool, kept_by_gke)}
    return Case(name, "create_node_pool", request, NAME, "INVALID_ARGUMENT", believed)


def differences(cases: Sequence[Case], seen: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [sentence for case in cases if (sentence := _difference(case, seen.get(case.name)))]


def _difference(case: Case, answer: Mapping[str, Any] | None) -> str | None:
    if answer is None:
        return f"{case.name}: never asked, expected {case.status}"
    if answer["status"] != case.status:
        return f"{case.name}: {answer['status']} ({answer['words']}), expected {case.status}"
    believed = getattr(reasons, case.believed)
    if not fits(believed, answer["words"]):
        return f"{case.name}: GKE says {answer['words']!r}, the emulator {believed!r}"
    return None


def fits(believed: str, words: str) -> bool:
    """Return whether a sentence begins with the believed one, with any text in its {gaps}."""
    parts = re.split(r"(\{\w+\})", believed.rstrip("."))
    pattern = "".join(".+" if part.startswith("{") else re.escape(part) for part in parts)
    return bool(re.match(pattern, words, re.DOTALL))
