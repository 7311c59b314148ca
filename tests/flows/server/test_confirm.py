import asyncio
import json
import os
import sys

import pytest

from tasks.store.store import Store, runs
from tests.flows.bench_runs import contents

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


async def gridbench(bench, *words):
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from gridbench.main import main; main()", *words),
        *("--results", str(bench.results)),
        env=os.environ | {"PYTHONPATH": str(os.getcwd()), "COLUMNS": "300"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(started.communicate(), 500)
    return started.returncode, out.decode()


async def raced(bench):
    """Measure two machines, of which `flat` is faster by 1.2 %; return the store."""
    run_id = await bench.start(suite="race", hardware=["sloping", "flat"])
    assert (await bench.end(run_id)).is_completed()
    return await bench.store(run_id)


def confirmation_of(bench, store):
    stores = [Store.open(bench.results, name) for name in runs(bench.results)]
    (again,) = [each for each in stores if each.plan.confirms == store.plan.run]
    published = json.loads((again.folder / "benchmark_results.json").read_text())
    return again, published["confirmation"]


async def test_an_answer_is_confirmed_by_a_run_of_its_own(bench):
    store = await raced(bench)
    before = contents(store) | {store.folder / "plan.json": (store.folder / "plan.json").read_bytes()}
    code, output = await gridbench(bench, "confirm", store.plan.run)
    assert code == 0, output
    again, confirmation = confirmation_of(bench, store)
    assert (confirmation["run"], confirmation["verdict"]) == (store.plan.run, "confirmed")
    claims = [(claim["by"], claim["best"], claim["rival"]) for claim in confirmation["claims"]]
    assert claims == [("time", "flat", "sloping"), ("cost", "flat", "sloping")]
    assert [claim["now"]["value"] for claim in confirmation["claims"]] == pytest.approx([1.012] * 2, rel=0.01)
    assert again.plan.cells == store.plan.cells and again.plan.seed != store.plan.seed
    assert "Confirmed: flat is faster than sloping" in output and str(again.folder / "report.html") in output
    assert "Confirmed: flat is faster than sloping" in (again.folder / "report.html").read_text()
    now = contents(store) | {store.folder / "plan.json": (store.folder / "plan.json").read_bytes()}
    assert now == before
    code, output = await gridbench(bench, "history", "matmul/n=340/fp32", "--all", "--on", "flat")
    assert code == 0 and f"confirms {store.plan.run}: confirmed" in output


@pytest.mark.chaos
async def test_an_answer_is_refuted_if_the_other_machine_is_faster_now(bench):
    store, crossing = await raced(bench), bench.results / "crossing"
    crossing.write_text("430")  # `sloping` is faster by 2.4 %
    try:
        code, output = await gridbench(bench, "confirm", store.plan.run)
    finally:
        crossing.unlink()
    again, confirmation = confirmation_of(bench, store)
    assert code == 1 and confirmation["verdict"] == "refuted", output
    code, output = await gridbench(bench, "confirm", again.plan.run, "--dry-run")
    assert code == 0 and f"{again.plan.run} confirms {store.plan.run}" in output


@pytest.mark.chaos
async def test_nothing_is_launched_above_the_budget_or_for_a_plan(bench):
    store = await raced(bench)
    known = set(runs(bench.results))
    code, output = await gridbench(bench, "confirm", store.plan.run, "--budget-usd", "0.000001")
    assert code == 2 and "budget_usd" in output
    code, output = await gridbench(bench, "confirm", store.plan.run, "--dry-run")
    assert code == 0 and "flat is faster than sloping" in output
    code, output = await gridbench(bench, "confirm", store.plan.run, "--repeats", "1")
    assert code == 2 and "repeats=1 must be 2 or more" in output
    assert set(runs(bench.results)) == known
