import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from stack_probe import Holder

from infra.local.guard import sweep
from infra.local.stack import LocalStack


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder whose database has its tables, which takes a server 5 s to make."""
    folder = tmp_path_factory.mktemp("migrated")
    with LocalStack(folder):
        pass
    with closing(sqlite3.connect(folder / "prefect.db")) as database:
        database.execute("pragma wal_checkpoint(truncate)")  # the tests copy this one file
    return folder


@pytest.fixture
def state(migrated: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder of the test's own; whatever a failing test leaves in it is swept up."""
    folder = tmp_path / "state with space"
    folder.mkdir()
    shutil.copy(migrated / "prefect.db", folder)
    yield folder
    sweep(str(folder))
    sweep(str(folder), servers=True)


@pytest.fixture
def holder(state: Path) -> Iterator[Holder]:
    held = Holder(state)
    yield held
    held.process.kill()
    held.process.wait()
