"""Lanes and a worker for the tests of the dispatcher."""

import asyncio

import pytest

from tests.tasks.dispatch.dispatched import planned, serve
from tests.tasks.dispatch.fake_prefect import installed


@pytest.fixture
def api(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture
def alone(store, plan):
    """A run of one lane."""
    return planned(store, plan, hardware=plan.hardware[:1])


@pytest.fixture
async def worker(api):
    task = asyncio.create_task(serve(api))
    yield task
    task.cancel()
