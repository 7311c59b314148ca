import asyncio

import psutil
import pytest

from tests.flows.bench_runs import artifacts, contents
from workloads.harness.records.record import Record, Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


async def test_a_case_that_cannot_fit_is_skipped_as_planned_and_the_rest_is_measured(bench):
    run_id = await bench.start(suite="large")
    assert (await bench.end(run_id)).is_completed()
    store = await bench.store(run_id)
    nap, huge = store.records()[0]
    assert nap.wall and huge.verdict is Verdict.SKIPPED and huge.wall_s == 0
    assert huge.reasons[0].startswith("needs at least 1.2 PB, but local-cpu has ")
    task = (await bench.tasks(run_id))["local-cpu/matmul/n=10000000/fp32"]
    assert (task.state.name, task.state.message) == ("Skipped", huge.reasons[0])
    assert task.state.is_completed()
    assert "needs at least 1.2 PB" in (store.folder / "report.html").read_text()
    assert huge.reasons[0] in (await artifacts(bench, run_id))["bench-plan"].description


async def test_a_killed_measuring_process_costs_its_repeat_only(bench):
    run_id = await bench.start()
    (await bench.measuring()).kill()
    assert (await bench.end(run_id)).is_completed()
    records, _ = (await bench.store(run_id)).records()
    died = [record for record in records if record.verdict is Verdict.CRASHED]
    assert len(records) == 3 and len(died) == 1
    assert "killed by SIGKILL" in died[0].reasons[0]


async def test_a_killed_lane_is_started_again_for_the_remaining_repeats(bench):
    run_id = await bench.start(suite="long")
    store = await bench.records(run_id, at_least=1)
    before = contents(store)
    psutil.Process(await bench.lane_pid()).kill()
    assert (await bench.end(run_id)).is_completed()
    after = contents(store)
    assert len(after) == 4 and before.items() <= after.items()
    assert all(Record.from_json(text.decode()).wall for text in after.values())


async def test_a_killed_bench_leaves_its_records_and_is_resumed(bench):
    run_id = await bench.start(suite="long")
    store = await bench.records(run_id, at_least=1)
    psutil.Process(await bench.bench_pid(run_id)).kill()
    assert (await bench.end(run_id)).is_crashed()
    async with asyncio.timeout(60):
        while bench.naps():
            await asyncio.sleep(0.1)
    before = contents(store)
    again = await bench.start(resume=store.plan.run)
    assert (await bench.end(again)).is_completed()
    after = contents(store)
    assert len(after) == 4 and before.items() <= after.items() and len(before) >= 1


async def test_a_killed_worker_is_replaced_and_the_run_is_resumed(bench):
    run_id = await bench.start(suite="long")
    store = await bench.records(run_id, at_least=1)
    bench.worker().kill()
    while (sentence := await asyncio.to_thread(bench.stack.check)) is None:
        await asyncio.sleep(0.2)
    assert "The worker of pool local had stopped" in sentence
    assert (await bench.end(run_id)).is_crashed()
    before = contents(store)
    again = await bench.start(resume=store.plan.run)
    assert (await bench.end(again)).is_completed()
    after = contents(store)
    assert len(after) == 4 and before.items() <= after.items()


async def test_two_runs_never_measure_at_once(bench):
    runs = [await bench.start() for _ in range(2)]
    most = 0
    while not all([(await bench.state(run_id)).is_final() for run_id in runs]):
        most = max(most, len(bench.naps()))
        await asyncio.sleep(0.1)
    assert most == 1
    assert all([(await bench.state(run_id)).is_completed() for run_id in runs])


async def test_a_run_that_is_under_way_is_not_resumed(bench):
    run_id = await bench.start(suite="long")
    store = await bench.records(run_id, at_least=1)
    refused = await bench.end(await bench.start(resume=store.plan.run))
    assert refused.is_failed() and f"under way in flow run {run_id}" in refused.message
    assert (await bench.end(run_id)).is_completed()
    assert len(contents(store)) == 4
