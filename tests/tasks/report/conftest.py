import pytest

from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store
from tests.tasks.examples.reports import comparison, records
from tests.tasks.examples.scaling import run
from tests.tasks.report.nonsense import HARDWARE


@pytest.fixture(scope="module")
def planned():
    return make_plan(RunRequest(suite="quick", hardware=HARDWARE, repeats=2, seed=7))


@pytest.fixture
def empty_store(tmp_path, planned):
    return Store.create(tmp_path / "results", planned)


@pytest.fixture(scope="module")
def scaling_run():
    return run()


@pytest.fixture(scope="session")
def made():
    return records()


@pytest.fixture(scope="session")
def compared(made):
    return comparison(made)
