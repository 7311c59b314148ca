import asyncio
import base64
import json

import pytest

from tasks.measure import NOTHING
from tests.flows.bench_runs import artifacts, contents

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


async def test_a_bench_run_measures_every_cell_and_publishes_its_report(bench):
    run_id = await bench.start(hardware=["local-cpu-1", "local-cpu"])
    assert (await bench.end(run_id)).is_completed()
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd and [r.cell for r in records] == store.plan.cells and all(r.wall for r in records)
    for record in records:  # a nap of n ms takes n ms and a little, and some more where others compute
        asked_s = record.case.params["ms"] / 1e3
        assert asked_s <= record.wall.median_s < 20 * asked_s
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
    picture = shown["bench-picture-speedup"]
    drawn = (store.folder / "speedup.png").read_bytes()
    assert picture.type == "image" and base64.b64decode(picture.data.partition("base64,")[2]) == drawn
    assert {"bench-speedups", "bench-refused"} & shown.keys(), "numbers, or why there are none on a busy box"
    tasks = await bench.tasks(run_id)
    assert {cell.id for cell in store.plan.cells} <= tasks.keys()


@pytest.mark.chaos
async def test_cancelling_stops_the_measurement_and_keeps_its_records(bench):
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


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"budget_usd": 0.000001}, "exceeds budget_usd"),
        *(
            pytest.param(*mistake, marks=pytest.mark.chaos)
            for mistake in (
                ({"resume": "never-was"}, "run 'never-was' is unknown"),
                ({"results": "/proc/nowhere"}, "can't be written"),
                ({"baseline": "local-cuda"}, "baseline 'local-cuda' is not among the hardware"),
            )
        ),
    ],
)
async def test_a_mistake_fails_the_run_with_one_sentence(bench, parameters, words):
    state = await bench.end(await bench.start(**parameters), within_s=300)
    assert state.is_failed() and words in state.message and "Traceback" not in state.message


async def test_a_run_without_one_time_is_failed_by_name_and_has_its_report(bench):
    run_id = await bench.start(hardware=["measures-nothing"])
    state = await bench.end(run_id, within_s=300)
    assert state.is_failed() and state.name == NOTHING, state
    assert state.message.startswith("nothing was measured: 3 crashed; measures-nothing/nap/ms=")
    assert "ended with code 1" in state.message
    assert ((await bench.store(run_id)).folder / "report.html").exists()


async def test_the_server_refuses_values_that_the_form_does_not_offer(bench):
    with pytest.raises(Exception, match="'nope' is not one of"):
        await bench.start(suite="nope")
