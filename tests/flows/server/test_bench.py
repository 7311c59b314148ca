"""The main job, through a real server, a real worker and real measuring processes."""

import asyncio
import json

import psutil
import pytest
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from workloads.harness.records.record import Record, Verdict

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


def contents(store):
    return {path: path.read_bytes() for path in (store.folder / "records").rglob("*.json")}


async def artifacts(bench, run_id):
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]))
    async with bench.client() as client:
        return {found.key: found for found in await client.read_artifacts(artifact_filter=wanted)}


async def test_the_main_job(bench):
    run_id = await bench.start(hardware=["local-cpu-1", "local-cpu"])
    assert (await bench.end(run_id)).is_completed()
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd and [r.cell for r in records] == store.plan.cells and all(r.wall for r in records)
    for record in records:  # a nap of n ms takes n ms and a little
        asked_s = record.case.params["ms"] / 1e3
        assert asked_s <= record.wall.median_s < 3 * asked_s
    made = {path.name for path in store.folder.iterdir()}
    assert made >= {
        "report.html",
        "results.parquet",
        "comparison.csv",
        "benchmark_results.json",
        "speedup.png",
    }
    rows = json.loads((store.folder / "benchmark_results.json").read_text())
    assert rows["run"] == store.plan.run or store.plan.run in json.dumps(rows)[:2000]
    shown = await artifacts(bench, run_id)
    assert shown["bench-progress"].data == 100.0
    assert shown["bench-summary"].data.index("report") > 0
    assert {"bench-plan", "bench-report"} <= shown.keys()
    assert {"bench-speedups", "bench-refused"} & shown.keys(), "numbers, or why there are none on a busy box"
    tasks = await bench.tasks(run_id)
    assert {cell.id for cell in store.plan.cells} <= tasks.keys()


@pytest.mark.chaos
async def test_what_can_not_fit_is_skipped_as_planned_and_the_rest_is_measured(bench):
    run_id = await bench.start(suite="large")
    assert (await bench.end(run_id)).is_completed()
    store = await bench.store(run_id)
    nap, huge = store.records()[0]
    assert nap.wall and huge.verdict is Verdict.SKIPPED and huge.wall_s == 0
    assert huge.reasons[0].startswith("needs at least 1.2 PB; local-cpu has ")
    task = (await bench.tasks(run_id))["local-cpu/matmul/n=10000000/fp32"]
    assert (task.state.name, task.state.message) == ("Skipped", huge.reasons[0])
    assert task.state.is_completed()
    assert "needs at least 1.2 PB" in (store.folder / "report.html").read_text()
    assert huge.reasons[0] in (await artifacts(bench, run_id))["bench-plan"].description


async def test_cancelling_stops_the_measurement_and_keeps_what_was_measured(bench):
    run_id = await bench.start(suite="long")
    await bench.records(run_id, at_least=1)
    await bench.measuring()
    await bench.cancel(run_id)
    async with asyncio.timeout(60):
        while bench.naps():
            await asyncio.sleep(0.1)
    assert (await bench.end(run_id)).is_cancelled()
    await asyncio.sleep(3)
    assert not bench.naps(), "the lane went on"
    store = await bench.store(run_id)
    before = contents(store)
    again = await bench.start(resume=store.plan.run)
    assert (await bench.end(again)).is_completed()
    after = contents(store)
    assert len(after) == 4 and before.items() <= after.items()


@pytest.mark.chaos
async def test_a_killed_measuring_process_costs_its_repeat_only(bench):
    run_id = await bench.start()
    (await bench.measuring()).kill()
    assert (await bench.end(run_id)).is_completed()
    records, _ = (await bench.store(run_id)).records()
    died = [record for record in records if record.verdict is Verdict.CRASHED]
    assert len(records) == 3 and len(died) == 1
    assert "killed by SIGKILL" in died[0].reasons[0]


@pytest.mark.chaos
async def test_a_killed_lane_is_started_again_for_what_is_left(bench):
    run_id = await bench.start(suite="long")
    store = await bench.records(run_id, at_least=1)
    before = contents(store)
    psutil.Process(await bench.lane_pid()).kill()
    assert (await bench.end(run_id)).is_completed()
    after = contents(store)
    assert len(after) == 4 and before.items() <= after.items()
    assert all(Record.from_json(text.decode()).wall for text in after.values())


@pytest.mark.chaos
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


@pytest.mark.chaos
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


@pytest.mark.chaos
async def test_two_runs_never_measure_at_once(bench):
    runs = [await bench.start() for _ in range(2)]
    most = 0
    while not all([(await bench.state(run_id)).is_final() for run_id in runs]):
        most = max(most, len(bench.naps()))
        await asyncio.sleep(0.1)
    assert most == 1
    assert all([(await bench.state(run_id)).is_completed() for run_id in runs])


@pytest.mark.chaos
async def test_a_run_that_is_under_way_is_not_resumed(bench):
    run_id = await bench.start(suite="long")
    store = await bench.records(run_id, at_least=1)
    refused = await bench.end(await bench.start(resume=store.plan.run))
    assert refused.is_failed() and f"under way in flow run {run_id}" in refused.message
    assert (await bench.end(run_id)).is_completed()
    assert len(contents(store)) == 4


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"budget_usd": 0.000001}, "above budget_usd"),
        ({"resume": "never-was"}, "run 'never-was' is unknown"),
        ({"results": "/proc/nowhere"}, "can't be written"),
        ({"baseline": "local-cuda"}, "baseline 'local-cuda' is not among the hardware"),
    ],
)
async def test_a_mistake_fails_the_run_with_one_sentence(bench, parameters, words):
    state = await bench.end(await bench.start(**parameters), within_s=300)
    assert state.is_failed() and words in state.message and "Traceback" not in state.message


async def test_the_server_refuses_what_the_form_does_not_offer(bench):
    with pytest.raises(Exception, match="'nope' is not one of"):
        await bench.start(suite="nope")
