import asyncio
import json
from datetime import datetime
from types import SimpleNamespace

import pytest

from tasks.delivery.pace import Pace
from tasks.dispatch import break_even
from tasks.dispatch.break_even import further_cells
from tasks.dispatch.dispatcher import Dispatcher
from tasks.dispatch.job_end import stages_s
from tasks.dispatch.job_notes import FILE, REST, jobs_of
from tasks.errors import GridbenchError
from tasks.findings.break_even import BreakEvens
from tasks.gather import judged
from tasks.planning.plan import PlannedCase
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.results.finding import LaneJob
from tasks.store.store import Store
from tests.tasks.dispatch.fake_prefect import installed
from tests.tasks.examples.records import record
from workloads.harness.records.case import Case

BASE, SIDE = "local-cpu-1", "local-cpu"
SIZES = (200, 500, 1000)
CROSSING = 415
STEADY = (0.999, 1.0, 1.001)


def measured(repeat):
    """Measure: time grows with n on the baseline only."""
    seconds = repeat.case.params["n"] / CROSSING if repeat.hardware == BASE else 1.0
    seconds *= STEADY[repeat.repeat - 1]
    return record(seconds, repeat.case, repeat.hardware, repeat.repeat, run=repeat.run, order=repeat.order)


def matmul(n, threads=None):
    return PlannedCase.of(Case.of("matmul", {"n": n}), threads)


@pytest.fixture
def api(monkeypatch):
    return installed(monkeypatch, measured)


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path)


def store_of(folder, **changes):
    plan = make_plan(RunRequest(suite="quick", hardware=[BASE, SIDE], repeats=3, seed=7, break_even=True))
    plan = plan.model_copy(update={"cases": tuple(map(matmul, SIZES))} | changes)
    return Store.create(folder / "results", plan)


class Killed(Exception):
    """The run was killed."""


async def bench(api, store, budget_usd=None, jobs=None):
    """Act like the flow; return its sentences. Kill it after `jobs` jobs."""
    said = []
    measuring = asyncio.create_task(measure(store, budget_usd, said.append))
    worker = asyncio.create_task(serve(api, jobs))
    async with asyncio.timeout(120):
        await asyncio.wait({measuring, worker}, return_when=asyncio.FIRST_COMPLETED)
    if worker.done():
        measuring.cancel()
        await asyncio.gather(measuring, return_exceptions=True)
        raise Killed
    worker.cancel()
    await measuring
    return said


async def measure(store, budget_usd, say):
    async with Dispatcher(store, budget_usd, say, pace=Pace(poll_s=0.01)) as lanes:
        cells = store.plan.cells
        while cells:
            await asyncio.gather(*map(lanes.records_of, cells))
            cells = further_cells(lanes)


async def serve(api, jobs):
    while jobs is None or sum(job.state.is_final() for job in api.jobs.values()) < jobs:
        for job in list(api.jobs.values()):
            if not job.state.is_final() and not job.state.is_cancelling():
                api.complete(job)
        await asyncio.sleep(0.005)


def crossing(store):
    return next(
        c for c in judged(store.records()[0], store).finding(BreakEvens).break_evens if c.by == "time"
    )


def further(store):
    cells = {r.cell for r in store.records()[0]} - set(store.plan.cells)
    return {cell.case.params["n"]: {c.hardware for c in cells if c.case == cell.case} for cell in cells}


async def test_the_break_even_is_known_within_a_quarter_in_a_few_cells_on_both_machines(api, store):
    plan = (store.folder / "plan.json").read_bytes()
    said = await bench(api, store)
    found = crossing(store)
    assert found.below < CROSSING < found.above <= 1.25 * found.below
    assert further(store) == {n: {BASE, SIDE} for n in (316, 397, 446)}
    records = store.records()[0]
    asked = [repeat for job in api.jobs.values() for repeat in api.repeats(job)]
    assert len({r.id for r in asked}) == len(asked) == len(records)
    for name in (BASE, SIDE):
        assert sorted(r.order for r in asked if r.hardware == name) == list(range(len(asked) // 2))
    assert (store.folder / "plan.json").read_bytes() == plan
    assert any("matmul/n=316/fp32" in sentence for sentence in said)


async def test_totals_are_of_the_suite_without_additional_sizes(api, store):
    await bench(api, store)
    found = judged(store.records()[0], store)
    assert [total.cases for total in found.totals] == [len(SIZES)] * 2
    assert "faster in 2, slower in 1 of 3" in " ".join(found.sentences)


async def test_without_being_asked_for_nothing_more_is_measured(api, tmp_path):
    store = store_of(tmp_path, break_even=False)
    await bench(api, store)
    assert further(store) == {}


@pytest.mark.parametrize("jobs", [1, 2, 3])
async def test_a_run_that_is_killed_anywhere_ends_up_with_the_same_cells(api, store, jobs):
    with pytest.raises(Killed):
        await bench(api, store, jobs=jobs)
    before = {r.id for r in store.records()[0]}
    await bench(api, store)
    again = store.records()[0]
    assert before <= {r.id for r in again} and len(before) < len(again)
    asked = [r.id for job in api.jobs.values() if job.state.is_completed() for r in api.repeats(job)]
    assert len(asked) == len(set(asked))
    assert set(further(store)) == {316, 397, 446} and crossing(store).above <= 1.25 * crossing(store).below


async def test_a_half_measured_size_decides_nothing(api, store):
    await bench(api, store)
    records = store.records()[0]
    lost = [r for r in records if r.case.params["n"] in (397, 446)]
    lost += [r for r in records if r.case.params["n"] == 316 and r.hardware == BASE][1:]
    for repeat in lost:
        store.set_aside(repeat)
    api.artifacts.clear()  # a new server, that knows nothing
    api.jobs.clear()
    await bench(api, store)
    assert {r.id for job in api.jobs.values() for r in api.repeats(job)} == {r.id for r in lost}


async def test_a_round_that_the_budget_does_not_hold_is_refused_with_a_sentence(api, tmp_path):
    dear = [
        m.model_copy(update={"price": m.price.model_copy(update={"usd_per_hour": 60.0})})
        for m in (make_plan(RunRequest(suite="quick", hardware=[BASE, SIDE])).hardware)
    ]
    store = store_of(tmp_path, hardware=tuple(dear))
    said = await bench(api, store, budget_usd=1.5)
    # the start of 10 s of the first round is paid for; 10 s more for each machine, and 3 repeats of no more
    # than 18 s and 15 s: 2 minutes at 60 USD an hour
    assert further(store) == {} and "would cost about 2 USD, more than the 1.3 USD left" in said[-1]
    assert "local-cpu/matmul/n=316/fp32" in said[-1]
    await bench(api, store, budget_usd=20.0)
    assert set(further(store)) == {316, 397, 446}


async def test_a_size_too_large_for_one_machine_is_measured_on_neither(api, store, monkeypatch):
    monkeypatch.setattr(
        break_even, "skip_reason", lambda machine, *_: "no room" if machine.name == SIDE else None
    )
    await bench(api, store)
    assert further(store) == {}


async def test_jobs_are_noted_and_stay_noted_when_the_server_has_forgotten_them(api, store):
    await bench(api, store)
    notes = json.loads((store.folder / FILE).read_text())
    assert len(notes) == len(api.jobs)
    assert {(note["hardware"], *note["turns_with"]) for note in notes} == {(BASE, SIDE)}
    assert sum(note["repeats"] for note in notes) == len(store.records()[0])
    for note in notes:
        times = [datetime.fromisoformat(note[name]) for name in ("submitted_at", "started_at", "ended_at")]
        assert times == sorted(times)
        assert note["billed_s"] == pytest.approx((times[2] - times[0]).total_seconds())
    api.jobs.clear()
    await bench(api, store)
    assert json.loads((store.folder / FILE).read_text()) == notes


def test_an_unreadable_note_of_jobs_is_ignored(store):
    assert jobs_of(store) == []
    (store.folder / FILE).write_text("[{]")
    assert jobs_of(store) == []
    note = {"flow_run_id": "7f6b1e9a-0000-4000-8000-000000000000", "hardware": BASE, "repeats": 3}
    note |= {"submitted_at": "2026-11-21T10:00:00Z", "started_at": "2026-11-21T10:01:00Z"}
    note |= {"ended_at": "2026-11-21T10:05:00Z", "billed_s": 300.0}
    (store.folder / FILE).write_text(json.dumps([note]))
    assert jobs_of(store) == [LaneJob(BASE, 60.0, 240.0)]
    for stages, told in (
        (
            {"queue and boot": 40.0, "image pull": 15.0},
            (("queue and boot", 40.0), ("image pull", 15.0), (REST, 5.0)),
        ),
        ({"queue and boot": 400.0}, ()),  # longer than all of it: not to be believed
    ):
        (store.folder / FILE).write_text(json.dumps([note | {"stages_s": stages}]))
        assert jobs_of(store) == [LaneJob(BASE, 60.0, 240.0, told)]


def test_stages_are_those_that_the_worker_has_put_into_the_labels():
    labels = {"gridbench.queue_s": 40.0, "gridbench.pull_s": -1.0, "prefect.worker.name": "w"}
    assert stages_s(SimpleNamespace(labels=labels)) == {"queue and boot": 40.0}
    labels = {"gridbench.queue_s": 40.0, "gridbench.pull_s": 2}
    assert stages_s(SimpleNamespace(labels=labels)) == {"queue and boot": 40.0, "image pull": 2.0}


def test_new_sizes_are_valid_and_have_threads_and_soak_of_the_nearest_case(store):
    train = Case.of("transformer_train", {"width": 256, "length": 128, "batch": 1})
    assert [break_even._step(train, name) for name in ("width", "length")] == [64, 1]
    strong = Case.of("ddpm_strong", {"batch": 32, "processes": 4})
    assert break_even._step(strong, "batch") == 4
    assert break_even._step(Case.of("never_heard_of", {"n": 1}), "n") == 1
    cases = [PlannedCase.of(Case.of("w", {"n": n, "batch": b}), n, 60 * n) for n in (1, 2) for b in (1, 4)]
    plan = store.plan.model_copy(update={"cases": tuple(cases)})
    for name, settings in (("w", (2, 120)), ("v", (None,))):
        case = Case.of(name, {"n": 2, "batch": 2})
        assert break_even._planned(plan, case) == PlannedCase.of(case, *settings)
    narrow = PlannedCase.of(Case.of("w", {"n": 2, "batch": 4, "channels": 76}), 3, None)
    plan = store.plan.model_copy(update={"cases": (*cases, narrow)})
    case = Case.of("w", {"n": 2, "batch": 4})
    assert break_even._planned(plan, case).threads == 2, "of those that say the same sizes"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"hardware": [BASE]}, "break_even needs two machines; hardware names only local-cpu-1"),
        ({"hardware": [BASE, SIDE], "repeats": 1}, "break_even needs intervals, and repeats=1 gives none"),
    ],
)
def test_a_break_even_that_cannot_be_known_is_refused(arguments, words):
    with pytest.raises(GridbenchError, match=words):
        make_plan(RunRequest(suite="quick", break_even=True, **arguments))
