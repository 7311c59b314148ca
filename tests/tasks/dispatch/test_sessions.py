import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prefect.states import Completed, Running

from tasks.dispatch import dispatcher, rented_boxes
from tasks.dispatch.lane import Lane
from tasks.dispatch.rental_labels import RELEASE
from tests.tasks.dispatch.dispatched import Run, planned, until
from tests.tasks.dispatch.test_rented_boxes import A10, box
from workloads.harness.records.record import Verdict


@pytest.fixture
def two(store, plan):
    return planned(store, plan, hardware=plan.hardware[:1], repeats=3, sessions=2)


@pytest.fixture
def rented(store, plan, monkeypatch):
    monkeypatch.setattr(rented_boxes, "LOOK_S", 0.01)
    price = plan.hardware[0].price.model_copy(update={"usd_per_hour": 1.0})
    changes = {"pool": "ssh", "rent": A10, "job_variables": {}, "price": price}
    machine = plan.hardware[0].model_copy(update=changes)
    return planned(store, plan, hardware=(machine,), sessions=2)


def sessions_in(api, job):
    return {repeat.session for repeat in api.repeats(job)}


def numbers_in(api, job):
    return {repeat.repeat for repeat in api.repeats(job)}


async def test_each_session_is_a_job_of_its_own_after_the_one_before(api, two):
    async with Run(two) as run:
        await until(lambda: api.jobs)
        await asyncio.sleep(0.1)
        assert len(api.jobs) == 1 and sessions_in(api, api.job) == {1} and numbers_in(api, api.job) == {1, 3}
        api.complete(api.job)
        await until(lambda: len(api.jobs) == 2)
        assert sessions_in(api, api.job) == {2} and numbers_in(api, api.job) == {2}
        api.complete(api.job)
        records = await run.ended()
    assert {(record.repeat, record.session) for record in records} == {(1, 1), (2, 2), (3, 1)}


class Clock:
    def __init__(self, monkeypatch):
        self.ahead_s = 0.0
        monkeypatch.setattr(dispatcher, "time", self)

    monotonic = staticmethod(time.monotonic)

    def time(self):
        return time.time() + self.ahead_s


@pytest.fixture
def apart(store, plan):
    return planned(store, plan, hardware=plan.hardware[:1], sessions=2, session_gap_s=3600.0)


async def test_a_session_begins_an_hour_after_the_one_before(api, apart, monkeypatch):
    clock = Clock(monkeypatch)
    async with Run(apart) as run:
        await until(lambda: api.jobs)
        api.complete(api.job)
        await until(lambda: any("session 2 begins at" in text for text in run.said))
        clock.ahead_s = 3500.0
        await asyncio.sleep(0.1)
        assert len(api.jobs) == 1
        clock.ahead_s = 3601.0
        await until(lambda: len(api.jobs) == 2)
        assert sessions_in(api, api.job) == {2}
        api.complete(api.job)
        await run.ended()
    assert sum("begins at" in text for text in run.said) == 1


@pytest.mark.parametrize(("ended_s", "left_s"), [(-3000, 600), (-7200, 0), (86400, 3600)])
async def test_a_resume_counts_from_the_end_of_the_session_before(api, apart, monkeypatch, ended_s, left_s):
    at = datetime.fromtimestamp(time.time() + ended_s - 10, UTC).isoformat(timespec="seconds")
    for repeat in apart.plan.repeats_on(apart.plan.hardware[0]):
        if repeat.session == 1:
            apart.add(replace(repeat.failed(Verdict.TIMEOUT, "of a test", 10.0), started_at=at))
    clock = Clock(monkeypatch)
    async with Run(apart) as run:
        await until(lambda: any("session 2 begins at" in text for text in run.said))
        clock.ahead_s = max(left_s - 60.0, 0.0)
        await asyncio.sleep(0.15)
        assert len(api.jobs) == (not left_s)
        clock.ahead_s = left_s + 60.0
        await until(lambda: api.jobs)
        assert sessions_in(api, api.job) == {2}


async def test_a_rented_box_waits_for_no_hour(api, rented):
    hourly = planned(rented, rented.plan, session_gap_s=3600.0)
    async with Run(hourly, budget_usd=100.0) as run:
        for count in (1, 2):
            await box(api, count)
            await until(lambda count=count: len(api.jobs) == count)
            api.complete(api.job)
        await run.ended()


async def test_entries_of_a_box_that_share_no_job_take_turns_by_session(api, store, plan):
    apart = tuple(m.model_copy(update={"start_s": 10.0 + i}) for i, m in enumerate(plan.hardware))
    planned(store, plan, hardware=apart, sessions=2)
    async with Run(store) as run:
        for count in range(1, 5):
            await until(lambda count=count: len(api.jobs) == count)
            api.complete(api.job)
        await run.ended()
    order = [(job.parameters["hardware"], *sessions_in(api, job)) for job in api.jobs.values()]
    first, second = (machine.name for machine in apart)
    assert order == [(first, 1), (second, 1), (first, 2), (second, 2)]


async def test_a_resume_measures_the_sessions_that_are_missing(api, two):
    async with Run(two):
        await until(lambda: api.jobs)
        api.start(api.job)
        api.deliver(api.job, api.repeats(api.job)[:-1])
        await until(lambda: len(two.records()[0]) == len(api.repeats(api.job)) - 1)
    api.crash(api.job)
    async with Run(two) as run:
        await until(lambda: len(api.jobs) == 2)
        assert sessions_in(api, api.job) == {1} and len(api.repeats(api.job)) == 1
        api.complete(api.job)
        await until(lambda: len(api.jobs) == 3)
        assert sessions_in(api, api.job) == {2} and len(api.repeats(api.job)) == len(two.plan.cases)
        api.complete(api.job)
        await run.ended()


async def test_a_repeat_that_kills_its_job_is_tried_alone_before_the_next_session(api, two):
    async with Run(two) as run:
        await until(lambda: api.jobs)
        api.start(api.job)
        api.crash(api.job)
        await until(lambda: len(api.jobs) == 2)
        assert len(api.repeats(api.job)) == 1 and sessions_in(api, api.job) == {1}
        for count in (3, 4):
            api.complete(api.job)
            await until(lambda count=count: len(api.jobs) == count)
        assert sessions_in(api, api.job) == {2}
        api.complete(api.job)
        await run.ended()


async def test_each_session_rents_a_box_of_its_own_and_gives_it_back(api, rented):
    async with Run(rented, budget_usd=100.0) as run:
        first = await box(api)
        await until(lambda: api.jobs)
        assert sessions_in(api, api.job) == {1} and not first.state.is_final()
        api.complete(api.job)
        second = await box(api, 2)
        assert first.labels[RELEASE] is True and first.state.is_completed()
        await until(lambda: len(api.jobs) == 2)
        assert sessions_in(api, api.job) == {2}
        api.complete(api.job)
        await run.ended()
    assert [held.parameters["asked"]["session"] for held in (first, second)] == [1, 2]
    assert second.state.is_completed() and len(api.rentals) == 2


async def test_the_next_box_is_rented_once_the_one_before_has_gone(api, rented, monkeypatch):
    give_back = api.give_back
    monkeypatch.setattr(api, "give_back", lambda run: None)
    async with Run(rented, budget_usd=100.0) as run:
        first = await box(api)
        await until(lambda: api.jobs)
        api.complete(api.job)
        await until(lambda: first.labels.get(RELEASE))
        await asyncio.sleep(0.2)
        assert len(api.rentals) == len(api.jobs) == 1
        give_back(first)
        monkeypatch.setattr(api, "give_back", give_back)
        await box(api, 2)
        await until(lambda: len(api.jobs) == 2)
        api.complete(api.job)
        await run.ended()


async def test_a_box_goes_back_after_the_container_of_its_last_job_has_ended(api, rented):
    async with Run(rented, budget_usd=100.0) as run:
        first = await box(api)
        await until(lambda: api.jobs)
        api.start(api.job)
        api.deliver(api.job, api.repeats(api.job))
        await until(lambda: len(rented.records()[0]) == len(rented.plan.cases))
        await asyncio.sleep(0.2)
        assert RELEASE not in first.labels and len(api.rentals) == 1
        api.job.state = Completed()
        await box(api, 2)
        await until(lambda: len(api.jobs) == 2)
        api.complete(api.job)
        await run.ended()


@pytest.mark.parametrize("budget_usd", [0.03, 0.2])
async def test_no_session_begins_beyond_the_budget_and_its_box_goes_back(api, rented, budget_usd):
    """The first box costs 0.025 USD; ten minutes of the next could cost 0.2 USD."""
    async with Run(rented, budget_usd=budget_usd) as run:
        held = await box(api)
        await until(lambda: api.jobs)
        api.complete(api.job)
        records = await run.ended()
    missing = [record for record in records if record.verdict is Verdict.CAPACITY]
    assert {record.session for record in missing} == {2} and len(missing) == len(rented.plan.cases)
    assert f"of the budget of {budget_usd:g} USD is left" in missing[0].reasons[0]
    assert held.state.is_completed() and len(api.rentals) == len(api.jobs) == 1


async def test_a_budget_that_the_first_session_spends_stops_the_run(api, rented):
    async with Run(rented, budget_usd=0.02) as run:
        await box(api)
        records = await run.ended()
    assert {record.verdict for record in records} == {Verdict.CAPACITY} and len(api.rentals) == 1
    assert {record.session for record in records} == {1, 2}


async def test_a_resume_does_not_measure_a_session_on_the_box_of_another(api, rented):
    async with Run(rented):
        held = await box(api)
        await until(lambda: api.jobs)
        api.complete(api.job)
        await until(lambda: len(rented.records()[0]) == len(rented.plan.cases))
        held.labels["kept"] = True
    for run in api.rentals.values():
        run.labels[RELEASE] = False
    held.state = Running()
    held.labels["rental.returned"] = None
    known = len(api.rentals)
    async with Run(rented) as run:
        second = await box(api, known + 1)
        await until(lambda: len(api.jobs) == 2)
        assert held.labels[RELEASE] is True and second.parameters["asked"]["session"] == 2
        assert sessions_in(api, api.job) == {2}
        api.complete(api.job)
        await run.ended()


def test_a_job_is_of_one_session(plan):
    lane = Lane((plan.hardware[0],))
    lane.ask(plan.model_copy(update={"sessions": 2}).repeats_on(lane.machine), now=0.0)
    assert lane.session == 1 and {repeat.session for repeat in lane.next_job()} == {1}
    for repeat in lane.next_job():
        lane.delivered(repeat.id)
    assert lane.session == 2 and {repeat.session for repeat in lane.next_job()} == {2}
