"""The GKE emulator without waiting, for tests of this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from infra.gke import operations
from infra.gke.api import ENDPOINT_VARIABLE, GkeLocation, connect
from infra.gke.build import build
from infra.gke.clusters import GkeCluster
from infra.gke.errors import GkeError
from infra.gke.plan import make_plan
from infra.gke.settings import ClusterOptions
from tests.emulators.gke.account import Account
from tests.emulators.gke.server import serve

PROJECT, ZONE = "my-project", "us-central1-a"
PARENT = f"projects/{PROJECT}/locations/{ZONE}"
NAME = f"{PARENT}/clusters/gridbench"


@contextmanager
def quick_gke(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    account = Account()
    monkeypatch.setattr(operations, "POLL_S", 0.0)
    with serve(account) as endpoint:
        monkeypatch.setenv(ENDPOINT_VARIABLE, endpoint)
        yield account


def place() -> GkeLocation:
    return connect(PROJECT, ZONE)


def wishes(*accelerators: str, **more: Any) -> ClusterOptions:
    return ClusterOptions("gridbench", ZONE, accelerators or ("nvidia-l4",), **more)


def up(wished: ClusterOptions, say: Callable[[str], None] = print) -> tuple[GkeCluster, list[GkeError]]:
    """Do what `gridbench up gke` does after the confirmation."""
    where = place()
    return build(where, make_plan(where, wished, say), say)
