import asyncio

import pytest

from tasks.dispatch import dispatcher
from tests.tasks.dispatch.dispatched import planned, serve
from tests.tasks.dispatch.fake_prefect import installed


@pytest.fixture
def api(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture
def alone(store, plan):
    return planned(store, plan, hardware=plan.hardware[:1])


@pytest.fixture
async def worker(api):
    task = asyncio.create_task(serve(api))
    yield task
    task.cancel()


@pytest.fixture
def told(monkeypatch):
    heard = []
    for name in ("lane_lost", "budget_spent"):
        monkeypatch.setattr(dispatcher, name, lambda plan, *of, name=name: heard.append((name, *of)))
    return heard
