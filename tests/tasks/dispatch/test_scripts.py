import asyncio

from tasks.delivery.job_orders import REPEATS
from tasks.delivery.pace import Pace
from tasks.dispatch.break_even import further_cells
from tasks.dispatch.dispatcher import Dispatcher
from tasks.findings.break_even import BreakEvens
from tasks.gather import judged
from tasks.measure import cell_state, nothing_measured
from tasks.store.store import Store
from tests.tasks.dispatch.dispatched import Run, serve, until
from tests.tasks.dispatch.fake_prefect import installed
from tests.tasks.examples.scripts import plan_of, ran
from workloads.harness.records.record import Verdict

BASE, SIDE, CROSSING = "local-cpu-1", "local-cpu", 415


def timed(repeat):
    seconds = repeat.case.params["batch"] / CROSSING if repeat.hardware == BASE else 1.0
    return ran(seconds * (0.999, 1.0, 1.001)[repeat.repeat - 1], repeat)


async def test_a_resume_orders_missing_repeats_with_their_script(monkeypatch, tmp_path):
    api = installed(monkeypatch, timed)
    store = Store.create(tmp_path / "results", plan_of(tmp_path, hardware=[BASE]))
    async with Run(store) as run:
        await until(lambda: api.jobs)
        api.start(api.job)
        first = api.repeats(api.job)[:2]
        api.deliver(api.job, first)
        await until(lambda: len(run.lanes.arrived) == 2)
    api.crash(api.job)
    worker = asyncio.create_task(serve(api))
    async with Run(store) as run:
        records = await run.ended()
    worker.cancel()
    (script,) = {planned.script for planned in store.plan.cases}
    again = api.repeats(api.job)
    assert len(again) == 4 and {repeat.script for repeat in (*first, *again)} == {script}
    assert {record.script.code for record in records} == {script.code} and len(records) == 6
    assert REPEATS.validate_json(REPEATS.dump_json(again)) == again


async def test_further_sizes_of_a_script_are_measured_until_its_break_even_is_known(monkeypatch, tmp_path):
    api = installed(monkeypatch, timed)
    request = {"hardware": [BASE, SIDE], "break_even": True}
    store = Store.create(tmp_path / "results", plan_of(tmp_path, "[200, 500, 1000]", **request))
    worker = asyncio.create_task(serve(api))
    async with asyncio.timeout(60), Dispatcher(store, None, lambda text: None, Pace(poll_s=0.01)) as lanes:
        cells = store.plan.cells
        while cells:
            await asyncio.gather(*map(lanes.records_of, cells))
            cells = further_cells(lanes)
    worker.cancel()
    records, _ = store.records()
    assert {r.case.params["batch"] for r in records} == {200, 500, 1000, 316, 397, 446}
    assert {r.script.code for r in records} == {store.plan.cases[0].script.code}
    shown = next(c for c in judged(records, store).finding(BreakEvens).break_evens if c.by == "time")
    assert shown.below < CROSSING < shown.above <= 1.25 * shown.below


def test_a_script_that_failed_is_a_failed_cell_with_its_reason(tmp_path):
    plan = plan_of(tmp_path)
    reason = "the script ended with code 1: ModuleNotFoundError: No module named 'timm'"
    records = [repeat.failed(Verdict.CRASHED, reason) for repeat in plan.repeats_on(plan.hardware[0])]
    state = cell_state(records[:3])
    assert state.is_failed() and (state.name, state.message) == ("Crashed", reason)
    assert nothing_measured(records, plan).startswith(
        "nothing was measured: 6 crashed; local-cpu/train/batch="
    )
