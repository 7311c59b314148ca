from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.supervisor import sweep
from tests.emulators.prefect_api import with_tables
from tests.infra.local.stack_probe import Holder


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder of the test's own; whatever a failing test leaves in it is swept up."""
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
