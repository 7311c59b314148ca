"""The stand-in for tests: this process speaks to it, and waits for nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from infra.gke import operations
from infra.gke.api import ENDPOINT_VARIABLE, Place, connect
from infra.gke.build import build
from infra.gke.clusters import Cluster
from infra.gke.errors import GkeError
from infra.gke.plan import make_plan
from infra.gke.settings import Wishes
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


def place() -> Place:
    """The zone of the tests."""
    return connect(PROJECT, ZONE)


def wishes(*accelerators: str, **more: Any) -> Wishes:
    """What `up` is asked for, an L4 by default."""
    return Wishes("gridbench", ZONE, accelerators or ("nvidia-l4",), **more)


def up(wished: Wishes, say: Callable[[str], None] = print) -> tuple[Cluster, list[GkeError]]:
    """What `gridbench up gke` does once it is agreed."""
    where = place()
    return build(where, make_plan(where, wished, say), say)
