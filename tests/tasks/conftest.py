import pytest

from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store


@pytest.fixture
def plan():
    return make_plan(RunRequest(suite="quick", hardware=["local-cpu-1", "local-cpu"], repeats=2, seed=7))


@pytest.fixture
def store(tmp_path, plan):
    return Store.create(tmp_path / "results", plan)
