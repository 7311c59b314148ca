"""The stand-in for tests: this process speaks to it, and waits for nothing."""

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
    """An empty account, to which the environment points."""
    account = Account()
    monkeypatch.setattr(operations, "POLL_S", 0.0)
    with serve(account) as endpoint:
        monkeypatch.setenv(ENDPOINT_VARIABLE, endpoint)
        yield account


def place() -> GkeLocation:
    """The zone of the tests."""
    return connect(PROJECT, ZONE)


def wishes(*accelerators: str, **more: Any) -> ClusterOptions:
    """What `up` is asked for, an L4 by default."""
    return ClusterOptions("gridbench", ZONE, accelerators or ("nvidia-l4",), **more)


def up(wished: ClusterOptions, say: Callable[[str], None] = print) -> tuple[GkeCluster, list[GkeError]]:
    """What `gridbench up gke` does once it is agreed."""
    where = place()
    return build(where, make_plan(where, wished, say), say)
