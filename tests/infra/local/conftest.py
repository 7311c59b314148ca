from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.stack import LocalStack
from infra.local.supervisor import sweep
from tests.emulators.prefect_api import with_tables
from tests.infra.local.pool_probe import POOLS, START_S
from tests.infra.local.stack_probe import Holder


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A private state folder, cleaned after a failing test."""
    folder = with_tables(tmp_path / "state with space")
    yield folder
    sweep(str(folder))
    sweep(str(folder), servers=True)


@pytest.fixture
def holder(state: Path) -> Iterator[Holder]:
    held = Holder(state)
    yield held
    held.process.kill()
    held.process.wait()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_WORKER_POLL_S", "0.5")


@pytest.fixture
def stack_of_two(state: Path, fast: None) -> Iterator[LocalStack]:
    with LocalStack(state, pools=POOLS, start_s=START_S) as up:
        yield up


@pytest.fixture
def stack(state: Path) -> Iterator[LocalStack]:
    with LocalStack(state) as up:
        yield up
