import asyncio
import threading
from dataclasses import replace

import pytest

from tasks.delivery import record_receiver
from tasks.delivery.artifact_encoding import records_in
from tasks.delivery.record_receiver import KEPT, MOST_ASIDE, RecordReceiver
from tasks.dispatch.flow_runs import collect
from tests.tasks.dispatch.dispatched import Run, until
from tests.tasks.dispatch.fake_prefect import installed
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict


@pytest.fixture
def prefect(monkeypatch):
    return installed(monkeypatch)


def forgeries(plan, repeat):
    record = repeat.failed(Verdict.OK, "forged")
    rival = next(machine.name for machine in plan.hardware if machine.name != repeat.hardware)
    return [
        replace(record, hardware=rival, repeat=98),
        replace(record, repeat=99),
        replace(record, run="another-run"),
        replace(record, case=Case.of("matmul", {"n": 9})),
        replace(record, hardware="../../outside"),
        replace(record, hardware="unheard-of"),
    ]


async def test_a_lane_delivers_its_own_repeats_only(prefect, store, plan):
    async with Run(store) as run:
        await until(lambda: prefect.jobs)
        job = prefect.job
        prefect.start(job)
        mine = prefect.repeats(job)[0]
        for record in forgeries(plan, mine):
            prefect.send(job, record.to_json())
        prefect.send(job, "no record at all")
        prefect.deliver(job, [mine])
        await until(lambda: mine.id in run.lanes.arrived and not prefect.artifacts)
        assert [record.id for record in store.records()[0]] == [mine.id] == list(run.lanes.arrived)
    told = [line for line in run.said if "is refused" in line]
    aside = sorted((store.folder / "refused").iterdir())
    assert len(told) == len(aside) == 7 and all(str(job.id) in line for line in told)
    assert "forged" in aside[0].read_text() and not (store.folder.parent / "outside").exists()


async def test_a_repeat_of_another_job_of_the_same_lane_is_refused(prefect, store, plan):
    one = plan.hardware[0].model_copy(update={"cells_per_job": 1})
    alone = store.create(store.folder.parent, plan.model_copy(update={"hardware": (one,)}))
    async with Run(alone) as run:
        await until(lambda: prefect.jobs)
        first = prefect.job
        prefect.deliver(first, plan.repeats_on(one)[:2])
        await until(lambda: run.lanes.arrived and not prefect.artifacts)
        assert [*run.lanes.arrived] == [prefect.repeats(first)[0].id]
    assert any("is refused" in line for line in run.said)


async def test_a_flood_of_artifacts_is_kept_in_part_and_does_not_stop_the_run(prefect, store, plan):
    async with Run(store) as run:
        await until(lambda: prefect.jobs)
        job = prefect.job
        prefect.start(job)
        for number in range(300):
            prefect.send(job, f"nonsense {number}")
        prefect.deliver(job, prefect.repeats(job)[:1])
        await until(lambda: run.lanes.arrived and not prefect.artifacts)
    assert len(list((store.folder / "refused").iterdir())) == MOST_ASIDE
    assert len([line for line in run.said if "refused" in line or "are discarded" in line]) == MOST_ASIDE + 1


async def test_records_of_a_run_that_ended_are_checked_as_well(prefect, store, plan):
    async with Run(store) as run:
        await until(lambda: prefect.jobs)
        job = prefect.job
        prefect.start(job)
        run.lanes._watch.cancel()  # killed: no process collects records or stops the job
        await asyncio.gather(run.lanes._watch, return_exceptions=True)
        mine = prefect.repeats(job)[:3]
        prefect.deliver(job, mine)
        for record in forgeries(plan, mine[0]):
            prefect.send(job, record.to_json())
        run.lanes._jobs.clear()
        run.lanes._receiver.orders.clear()
    sentences = await collect(prefect, store, [job])
    assert {record.id for record in store.records()[0]} == {repeat.id for repeat in mine}
    assert len([line for line in sentences if "is refused" in line]) == 6


@pytest.mark.parametrize(
    "data", ["\n" * 1_000_000, "{}\n" * 400_000, "[" * 1_000_000], ids=["empty", "odd", "deep"]
)
async def test_a_million_bad_lines_end_at_the_first_and_off_the_event_loop(prefect, store, monkeypatch, data):
    """The loop watches budget and boxes, and stood still for 14 s."""
    said, readers = [], []

    def read(text, most):
        readers.append(threading.current_thread())
        return records_in(text, most)

    monkeypatch.setattr(record_receiver, "records_in", read)
    async with Run(store) as run:
        await until(lambda: prefect.jobs)
        job = prefect.job
        mine = prefect.repeats(job)[:2]
        receiver = RecordReceiver(prefect, store, said.append, lambda record: None)
        receiver.expect(job.id, mine)
        run.lanes._watch.cancel()
        prefect.send(job, mine[0].failed(Verdict.TIMEOUT, "x").to_json() + "\n" + data)
        await receiver.collect()
        assert [record.id for record in store.records()[0]] == [mine[0].id] and not prefect.artifacts
    (aside,) = (store.folder / "refused").iterdir()
    assert len(said) == 1 and aside.stat().st_size <= KEPT + 1
    assert len(readers) == 1 and threading.main_thread() not in readers


def test_an_upload_has_no_more_records_than_its_order(repeats_of_one):
    record = repeats_of_one[0].failed(Verdict.TIMEOUT, "x")
    records, bad = records_in("\n".join([record.to_json()] * 5), 2)
    assert records == [record] * 2 and bad and "at most 2 records" in bad[1]


@pytest.fixture
def repeats_of_one(plan):
    return plan.repeats_on(plan.hardware[0])


async def test_a_job_that_sends_more_than_its_order_needs_is_stopped_and_its_lane_given_up(
    prefect, store, plan, monkeypatch
):
    monkeypatch.setattr(record_receiver, "MOST_BYTES", 10_000)
    monkeypatch.setattr(record_receiver, "REPEAT_BYTES", 0)
    async with Run(store) as run:
        await until(lambda: prefect.jobs)
        job = prefect.job
        prefect.start(job)
        for _ in range(5):
            prefect.send(job, "x" * 5000)
        records = await run.ended()
        assert prefect.stopped(job) and not prefect.artifacts
    assert {record.verdict for record in records} == {Verdict.CAPACITY}
    assert "than its order can need" in records[0].reasons[0]
