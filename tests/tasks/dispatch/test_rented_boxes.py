import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from prefect.states import Cancelled, Crashed, Failed, Running

from tasks.dispatch import lane, rented_boxes
from tasks.dispatch.job_end import OUTCOME_LABEL
from tasks.dispatch.job_notes import BOOT, REST, UNBOOTED, jobs_of, note_of_rental, spent_usd
from tasks.dispatch.rental_labels import RELEASE, RentalStatus
from tasks.dispatch.rental_order import LEAST_S, RentalOrder, order_for
from tasks.planning.rent_terms import RentTerms
from tests.tasks.dispatch.dispatched import Run, planned, until
from tests.tasks.dispatch.fake_prefect import installed
from workloads.harness.records.record import Verdict

A10 = RentTerms(provider="lambda", instances=("gpu_1x_a10",))


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(rented_boxes, "LOOK_S", 0.01)
    monkeypatch.setattr(rented_boxes, "IDLE_S", 0.05)
    return installed(monkeypatch)


@pytest.fixture
def rented(store, plan):
    price = plan.hardware[0].price.model_copy(update={"usd_per_hour": 1.0})
    variables = {"image": "bench", "timeout_s": 36000}
    changes = {"pool": "ssh", "rent": A10, "job_variables": variables, "price": price}
    return planned(store, plan, hardware=(plan.hardware[0].model_copy(update=changes),))


def newest(api):
    return list(api.rentals.values())[-1]


async def box(api, count=1, **known):
    await until(lambda: len(api.rentals) == count)
    api.rent(newest(api), **known)
    return newest(api)


async def test_a_box_is_rented_measured_on_and_returned(api, rented):
    async with Run(rented) as run:
        await until(lambda: api.rentals)
        await asyncio.sleep(0.1)
        assert not api.jobs, "no job before there is a box"
        held = await box(api, host_key="ssh-ed25519 AAAA")
        await until(lambda: api.jobs)
        (host,) = api.job.job_variables["hosts"]
        assert host == {
            "address": "10.0.0.1",
            "user": "ubuntu",
            "key": "block:box-1",
            "host_key": "ssh-ed25519 AAAA",
        }
        assert 3400 < api.job.job_variables["timeout_s"] <= 3540, "ends before its box does"
        assert api.job.job_variables["image"] == "bench"
        api.complete(api.job)
        assert len(await run.ended()) == 10
        await until(lambda: held.state.is_completed())
        assert len(api.rentals) == len(api.jobs) == 1
    asked = RentalOrder.model_validate(held.parameters["asked"])
    assert (asked.hardware, asked.most_usd_per_hour) == (rented.plan.hardware[0].name, 1.2)
    assert run.lanes.spent_usd() == pytest.approx(1.5 / 60), "a minute that has begun, and no job's own price"


async def test_a_box_that_is_not_idle_yet_is_returned_at_the_end_after_its_job(api, rented, monkeypatch):
    monkeypatch.setattr(rented_boxes, "IDLE_S", 60)
    async with Run(rented) as run:
        held = await box(api)
        await until(lambda: api.jobs)
        api.complete(api.job)
        await run.ended()
        assert not held.state.is_final()
    assert held.labels[RELEASE] is True and held.state.is_completed()


@pytest.mark.parametrize("state", ["NoCapacity", "Refused", "Due"])
async def test_a_rental_that_fails_ends_the_lane_with_its_sentence(api, rented, state):
    async with Run(rented) as run:
        await until(lambda: api.rentals)
        newest(api).state = Failed(name=state, message="no gpu_1x_a10 anywhere")
        records = await run.ended()
    assert {record.verdict for record in records} == {Verdict.CAPACITY} and not api.jobs
    assert f"its rental ended {state}: no gpu_1x_a10 anywhere" in records[0].reasons[0]
    assert spent_usd(rented) == 0


async def test_a_reclaimed_box_is_replaced_and_nothing_is_measured_twice(api, rented, monkeypatch):
    monkeypatch.setattr("tasks.dispatch.rented_boxes.JOBS_S", 0.5)  # its worker is gone with the box
    async with Run(rented) as run:
        first = await box(api)
        await until(lambda: api.jobs)
        job = api.job
        api.start(job)
        api.deliver(job, api.repeats(job)[:5])
        api.give_back(first, Crashed(name="Reclaimed", message="preempted"))
        await box(api, 2)
        await until(lambda: len(api.jobs) == 2)
        assert api.stopped(job) and len(api.repeats(api.job)) == 5
        api.complete(api.job)
        assert len(await run.ended()) == 10


async def test_a_rental_that_never_begins_after_a_box_was_taken_away_is_the_first_of_its_kind(api, rented):
    async with Run(rented) as run:
        await until(lambda: api.rentals)
        api.start(newest(api))
        newest(api).state = Crashed(name="Reclaimed", message="preempted")
        for count in (2, 3):
            await until(lambda count=count: len(api.rentals) == count)
            api.crash(newest(api), "its process could not start")
        records = await run.ended()
    assert len(api.rentals) == 3 and "2 rentals in a row never began" in records[0].reasons[0]


async def test_boxes_that_go_without_a_record_are_not_rented_for_ever(api, rented):
    async with Run(rented) as run:
        for count in range(1, 6):
            await until(lambda count=count: len(api.rentals) == count)
            api.start(newest(api))
            newest(api).state = Crashed(name="Reclaimed", message="preempted")
        records = await run.ended()
    assert {record.verdict for record in records} == {Verdict.PREEMPTED} and len(api.rentals) == 5
    assert "5 boxes in a row" in records[0].reasons[0]


async def test_a_lane_whose_rentals_never_begin_is_given_up_after_the_second(api, rented, told):
    async with Run(rented) as run:
        for count in (1, 2):
            await until(lambda count=count: len(api.rentals) == count)
            api.crash(newest(api), "its process could not start")
        records = await run.ended()
    assert {record.verdict for record in records} == {Verdict.CAPACITY} and len(api.rentals) == 2
    assert "2 rentals in a row never began; the last: its rental" in records[0].reasons[0]
    assert "ended Crashed: its process could not start" in records[0].reasons[0]
    assert [name for name, *_ in told] == ["lane_lost"]


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (False, "no worker of pool rental has started the lane within 0 s"),
        (True, "pool rental has not started the lane within 0 s"),
    ],
)
async def test_a_rental_without_a_worker_is_cancelled_and_its_lane_given_up(
    api, rented, told, monkeypatch, taken, words
):
    monkeypatch.setattr(lane, "START_WITHIN_S", 0.1)
    async with Run(rented) as run:
        await until(lambda: api.rentals)
        if taken:
            api.take(newest(api))
        records = await run.ended()
        assert api.stopped(newest(api)), "a worker that comes later has nothing to rent"
        newest(api).state = Cancelled()
    assert {record.verdict for record in records} == {Verdict.CAPACITY} and len(api.rentals) == 1
    assert records[0].reasons == (words,) and [name for name, *_ in told] == ["lane_lost"]


async def test_a_box_that_takes_long_to_boot_is_waited_for(api, rented, monkeypatch):
    monkeypatch.setattr(lane, "START_WITHIN_S", 0.05)
    async with Run(rented) as run:
        await until(lambda: api.rentals)
        api.start(newest(api))
        await asyncio.sleep(0.2)
        await box(api)
        await until(lambda: api.jobs)
        api.complete(api.job)
        assert len(await run.ended()) == 10


@pytest.mark.parametrize("end", rented_boxes.BAD_BOX)
async def test_a_job_that_blames_its_box_gets_another(api, rented, end):
    async with Run(rented) as run:
        first = await box(api)
        await until(lambda: api.jobs)
        api.start(api.job)
        api.job.labels[OUTCOME_LABEL] = end.value
        api.job.state = Crashed(message="of a test")
        await until(lambda: first.labels.get(RELEASE))
        await box(api, 2)
        await until(lambda: len(api.jobs) == 2)
        api.complete(api.job)
        assert len(await run.ended()) == 10


async def test_the_budget_counts_a_rented_box_from_its_launch_and_returns_it(api, rented):
    async with Run(rented, budget_usd=0.7) as run:
        launched = datetime.now(UTC) - timedelta(minutes=20)
        held = await box(api, since=launched, earlier_usd=0.3)
        records = await run.ended()
        assert "the budget of 0.7 USD is spent" in records[0].reasons[0]
        await until(lambda: held.state.is_completed())
    assert run.lanes.spent_usd() == pytest.approx(0.3 + 21 * 1.5 / 60)


async def test_a_resume_goes_on_with_the_box_that_is_there(api, rented):
    async with Run(rented):
        held = await box(api)
        await until(lambda: api.jobs)
        api.complete(api.job)
    held.state = Running()
    held.labels |= {RELEASE: False, "rental.returned": None}
    for record in rented.records()[0][7:]:
        rented.set_aside(record)
    api.artifacts.clear()
    async with Run(rented) as run:
        await until(lambda: len(api.jobs) == 2)
        api.complete(api.job)
        assert len(await run.ended()) == 10
    assert len(api.rentals) == 1 and held.labels[RELEASE] is True


async def test_a_resume_has_a_budget_of_its_own(api, rented):
    async with Run(rented) as run:
        await box(api, since=datetime.now(UTC) - timedelta(hours=2))
        await until(lambda: api.jobs)
        api.complete(api.job)
        await run.ended()
    assert run.lanes.spent_usd() == pytest.approx(121 * 1.5 / 60)
    for record in rented.records()[0][7:]:
        rented.set_aside(record)
    api.artifacts.clear()
    async with Run(rented, budget_usd=1.0) as run:
        await box(api, 2)
        await until(lambda: len(api.jobs) == 2)
        api.complete(api.job)
        assert len(await run.ended()) == 10
    assert run.lanes.spent_usd() == pytest.approx(1.5 / 60)


def test_nothing_is_rented_for_longer_than_the_money_lasts(plan):
    machine = plan.hardware[0].model_copy(update={"rent": A10})
    assert order_for(machine, A10, "r", None).most_s == 8 * 3600
    dear = A10.model_copy(update={"most_usd_per_hour": 2.0})
    assert order_for(machine, dear, "r", 3.0).most_s == 1.5 * 3600
    assert order_for(machine, dear, "r", 0.0).most_s == LEAST_S


async def test_the_bill_of_a_rented_box_is_the_paid_amount(api, rented):
    now = datetime.now(UTC)
    known = {"since": now - timedelta(minutes=30), "answered": now - timedelta(minutes=26)}
    async with Run(rented) as run:
        await box(api, **known, earlier_s=120, earlier_usd=0.05)
        await until(lambda: api.jobs)
        api.complete(api.job)
        await run.ended()
    job, rental = jobs_of(rented)
    assert rental.usd == pytest.approx(0.05 + 31 * 1.5 / 60)
    assert dict(rental.stages_s) == pytest.approx({UNBOOTED: 120, BOOT: 240})
    assert rental.wait_s + rental.run_s == pytest.approx(120 + 31 * 60)
    assert job.stages_s[0][0] == REST and job.wait_s + job.run_s == 0, "its start is within the rental"


async def test_a_rental_that_never_got_a_box_costs_nothing(api, rented):
    async with Run(rented):
        await until(lambda: api.rentals)
        assert note_of_rental(newest(api)) == []
    assert RentalStatus().cost_usd() == 0 and jobs_of(rented) == []
