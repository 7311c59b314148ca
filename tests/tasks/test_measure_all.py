import asyncio
import time

import pytest

from tasks import measure as module
from tasks.delivery.pace import PACES, ApiPlan, Pace, pace_here
from tasks.dispatch.dispatcher import Dispatcher
from tasks.measure import Turns, measure_all
from tests.tasks.dispatch.dispatched import serve, until
from tests.tasks.dispatch.fake_prefect import installed


@pytest.fixture
def api(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture
def opened(monkeypatch):
    """The cells whose task runs began, in order, and how many were open at most."""

    class Opened(list):
        now, most = 0, 0

    cells = Opened()

    async def begin(cell, lanes, return_state):
        cells.append(cell)
        cells.now += 1
        cells.most = max(cells.most, cells.now)
        records = await lanes.records_of(cell)
        cells.now -= 1
        return records

    monkeypatch.setattr(module, "measure", begin)
    return cells


async def measured(store, pace, said):
    async with Dispatcher(store, None, said.append, pace) as lanes:
        async with asyncio.timeout(60):
            await measure_all(store.plan.cells, lanes, said.append)


async def test_all_cells_are_asked_for_at_once_and_opened_by_and_by(api, store, opened):
    task = asyncio.create_task(serve(api))
    await measured(store, Pace(poll_s=0.01, open_cells=4), [])
    task.cancel()
    assert sorted(opened, key=str) == sorted(store.plan.cells, key=str) and opened.most <= 4
    assert len(api.jobs) == 1, "one job for the lane: it is not split because its cells are not open"
    assert len(store.records()[0]) == 20


async def test_a_job_that_dies_wakes_no_cell(api, store, opened):
    running = asyncio.create_task(measured(store, Pace(poll_s=0.01), []))
    await until(lambda: api.orders)
    begun = list(opened)
    api.start(api.job)
    api.deliver(api.job, api.repeats(api.job)[:2])
    api.crash(api.job)
    await until(lambda: len(api.orders) > 1)
    assert opened == begun and opened.now == len(begun) == 10
    task = asyncio.create_task(serve(api))
    await running
    task.cancel()
    assert len(store.records()[0]) == 20


async def test_cells_not_opened_before_the_measuring_ends_stay_closed(api, store, opened):
    said, task = [], asyncio.create_task(serve(api))
    began = time.monotonic()
    await measured(store, Pace(poll_s=0.01, cells_per_minute=6.0, cells_at_first=3), said)
    task.cancel()
    assert len(store.records()[0]) == 20 and 3 <= len(opened) < 10 and time.monotonic() - began < 30
    assert any(line.startswith(f"{10 - len(opened)} cells have no separate task run") for line in said)


async def test_the_last_cells_are_opened_after_the_measuring_without_empty_turns(
    api, store, opened, monkeypatch
):
    taken = []

    class Counted(Turns):
        async def take(self, needed):
            taken.append(1)
            return await super().take(needed)

    monkeypatch.setattr(module, "Turns", Counted)
    task = asyncio.create_task(serve(api))
    await measured(store, Pace(poll_s=0.01, cells_per_minute=600.0, cells_at_first=0), [])
    task.cancel()
    assert len(opened) == 10 and len(taken) <= 2 * 10, "at most one turn more for each that was opened"


async def test_turns_come_at_their_rate():
    turns, began = Turns(6000.0), time.monotonic()
    assert all(await asyncio.gather(*(turns.take(lambda: True) for _ in range(20))))
    assert time.monotonic() - began >= 0.2
    assert not await Turns(1.0).take(lambda: False)


@pytest.mark.parametrize(
    ("plan", "url", "pace"),
    [
        (None, "http://127.0.0.1:4200/api", PACES[ApiPlan.OWN]),
        (None, "https://api.prefect.cloud/api/accounts/a/workspaces/b", PACES[ApiPlan.HOBBY]),
        ("pro", "https://api.prefect.cloud/api/accounts/a/workspaces/b", PACES[ApiPlan.PRO]),
        ("hobby", "http://127.0.0.1:4200/api", PACES[ApiPlan.HOBBY]),
    ],
)
def test_the_pace_is_that_of_the_plan(monkeypatch, plan, url, pace):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    if plan:
        monkeypatch.setenv("GRIDBENCH_PREFECT_PLAN", plan)
    with temporary_settings({PREFECT_API_URL: url}):
        assert pace_here() == pace


def test_an_invalid_plan_is_one_sentence(monkeypatch):
    monkeypatch.setenv("GRIDBENCH_PREFECT_PLAN", "gold")
    with pytest.raises(ValueError, match="'own', 'hobby'"):
        pace_here()


LANES, WORKERS, MINUTE_S = 10, 3, 60.0
WORKER_CALLS = 12 + 8 + 6 + 2  # a minute: cancelled runs, runs to take over, scheduled ones, heartbeats


def test_ten_rentals_and_three_workers_stay_below_300_a_minute_on_the_smallest_plan():
    pace = PACES[ApiPlan.HOBBY]
    bench = 4 * MINUTE_S / pace.poll_s  # records, jobs, rentals, progress
    rentals = LANES * MINUTE_S / pace.rental_s
    lanes = LANES * MINUTE_S / pace.deliver_s * 3  # an upload and its removal, a message of the log
    events = 3 * (pace.cells_per_minute + pace.cells_at_first)
    assert WORKERS * WORKER_CALLS + bench + rentals + lanes + events < 300
