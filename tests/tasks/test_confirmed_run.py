from dataclasses import replace

import pytest

from tasks.confirmed_run import confirmed_answer, plan_of_confirmation
from tasks.errors import GridbenchError
from tasks.findings.confirmation import Confirmation, Confirmed
from tasks.gather import judged
from tasks.imported import SUITE as IMPORTED
from tasks.planning import reprice
from tasks.planning.estimates import lane_usd
from tasks.planning.hardware import load_hardware
from tasks.planning.plan import read_plan
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.store.store import Store
from tests.tasks.examples.records import record
from workloads.harness.records.program import Better, MetricValue, ProgramRun
from workloads.harness.records.record import Work
from workloads.harness.records.script import ScriptRun

SPEEDS = {"local-cpu-1": 1.0, "local-cpu": 2.0, "slow-box": 0.5}


def stored(results, plan, speeds=SPEEDS):
    """Write a run with a record of every repeat; the first case takes 50 times as long."""
    store = Store.create(results, plan)
    for machine in plan.hardware:
        for repeat in plan.repeats_on(machine):
            first = repeat.case == plan.cases[0].case
            seconds = (1.0 if first else 0.02) / speeds[machine.name] * (1 + 1e-3 * repeat.repeat)
            one = record(seconds, repeat.case, machine.name, repeat.repeat, run=plan.run)
            store.add(replace(one, work=Work(1, "steps", None, None)))
    return store


def of_machine(plan, machine):
    return [cell for cell in plan.cells if cell.hardware == machine.name]


def plan_with(names=SPEEDS, **changes):
    made = make_plan(RunRequest(suite="quick", hardware=["local-cpu-1", "local-cpu"], repeats=3, seed=7))
    slow = made.hardware[0].model_copy(update={"name": "slow-box", "box": None})
    first = made.cases[0]
    other = next(planned for planned in made.cases if planned.workload != first.workload)
    hardware = tuple(machine for machine in (*made.hardware, slow) if machine.name in names)
    return made.model_copy(update={"hardware": hardware, "cases": (first, other), "skips": (), **changes})


@pytest.fixture
def store(tmp_path):
    return stored(tmp_path, plan_with(created_at="2026-07-01T00:00:00+00:00"))


def test_only_the_deciding_machines_and_cases_are_measured_again(store):
    plan, claims = plan_of_confirmation(store)
    assert {(c.best, c.rival) for c in claims if c.by == "time"} == {("local-cpu", "local-cpu-1")}
    assert {machine.name for machine in plan.hardware} == {"local-cpu", "local-cpu-1"}
    assert plan.cases == store.plan.cases[:1]
    assert (plan.confirms, plan.repeats, plan.skips) == (store.plan.run, 3, ())
    assert plan.run != store.plan.run and plan.seed != store.plan.seed
    assert read_plan(plan.model_dump_json(), "plan") == plan
    walls_s = [record.wall_s for record in store.records()[0] if record.cell in plan.cells]
    start_s = sum(machine.start_s for machine in plan.hardware)
    assert len(walls_s) == 6 and plan.estimate_s == pytest.approx(sum(walls_s) + start_s)  # they take turns
    assert plan.estimate_usd > 0 and plan_of_confirmation(store, 5)[0].estimate_s > plan.estimate_s


def test_the_estimate_has_todays_prices_and_the_claims_keep_the_runs_own(store, tmp_path, monkeypatch):
    before, claims = plan_of_confirmation(store)

    def dearer(name):
        made = load_hardware(name)
        price = made.price.model_copy(update={"usd_per_hour": 10 * made.price.usd_per_hour})
        return made.model_copy(update={"price": price}) if name == "local-cpu" else made

    monkeypatch.setattr(reprice, "load_hardware", dearer)
    plan, now = plan_of_confirmation(store)
    was, price = ({m.name: m.price.usd_per_hour for m in p.hardware} for p in (store.plan, plan))
    assert price == {"local-cpu": 10 * was["local-cpu"], "local-cpu-1": was["local-cpu-1"]}
    assert plan.estimate_usd == pytest.approx(
        sum(
            lane_usd(
                m, m.start_s + sum(r.wall_s for r in store.records()[0] if r.cell in of_machine(plan, m))
            )
            for m in plan.hardware
        )
    )
    assert plan.estimate_usd > 2 * before.estimate_usd and now == claims
    assert len(plan.notes) == 1 and "local-cpu is counted at" in plan.notes[0] and before.notes == ()
    again = stored(tmp_path, plan)
    judged_again = judged(again.records()[0], again).finding(Confirmation).claims
    assert {(c.claim.by, c.claim.factor) for c in judged_again} == {(c.by, c.factor) for c in claims}


def test_a_machine_without_a_file_keeps_its_price(tmp_path):
    plan, _ = plan_of_confirmation(
        stored(tmp_path, plan_with(("slow-box", "local-cpu"), baseline="local-cpu"))
    )
    (slow,) = (machine for machine in plan.hardware if machine.name == "slow-box")
    assert slow.price == plan_with().hardware[-1].price
    assert any("slow-box stays at" in note for note in plan.notes)


def test_a_confirmation_is_judged_with_the_run_and_those_between(store, tmp_path):
    first = stored(tmp_path, plan_of_confirmation(store)[0])
    plan = plan_of_confirmation(store)[0].model_copy(update={"created_at": "2099-07-01T00:00:00+00:00"})
    second = stored(tmp_path, plan)
    answer = confirmed_answer(second)
    assert [session.run for session in answer.sessions] == [store.plan.run, first.plan.run]
    assert (answer.run, answer.problem) == (store.plan.run, "")
    confirmation = judged(second.records()[0], second).finding(Confirmation)
    assert confirmation.run == store.plan.run and confirmation.verdict is Confirmed.CONFIRMED
    assert {again.sessions for again in confirmation.claims} == {3}
    assert confirmed_answer(store).run == ""


def test_a_slower_winner_is_refuted_by_the_stored_run(store, tmp_path):
    again = stored(tmp_path, plan_of_confirmation(store)[0], SPEEDS | {"local-cpu": 0.9})
    confirmation = judged(again.records()[0], again).finding(Confirmation)
    assert confirmation.verdict is Confirmed.REFUTED and confirmation.exit_code == 1


def test_a_confirmation_whose_earlier_answer_is_gone_is_open(store, tmp_path):
    plan = plan_of_confirmation(store)[0].model_copy(update={"confirms": "gone"})
    again = stored(tmp_path, plan)
    found = judged(again.records()[0], again)
    assert any("answer of gone" in caveat.reason for caveat in found.caveats)
    confirmation = found.finding(Confirmation)
    assert (confirmation.run, confirmation.claims, confirmation.exit_code) == ("gone", (), 3)
    assert "gone" in confirmation.missing[0]


@pytest.mark.parametrize(
    ("changes", "repeats", "sentence"),
    [
        ({"suite": IMPORTED}, None, "was imported"),
        ({}, 1, "repeats=1 must be 2 or more"),
        ({"names": ("local-cpu",), "baseline": "local-cpu"}, None, "nothing to confirm"),
    ],
)
def test_a_run_that_cannot_be_confirmed_is_refused_in_one_sentence(tmp_path, changes, repeats, sentence):
    with pytest.raises(GridbenchError, match=sentence):
        plan_of_confirmation(stored(tmp_path, plan_with(**changes)), repeats)


def test_the_numbers_of_a_command_are_measured_again(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "notes").write_text("a file")
    (tmp_path / "mine.toml").write_text(
        '[[commands]]\nname = "serve"\nrun = "true {n}"\nfolder = "code"\nsize = { n = [1, 2] }\n'
        'metrics = ["tokens/s: rate (.*)"]\nestimate_s = 5\n'
    )
    asked = RunRequest(suite=str(tmp_path / "mine.toml"), hardware=["local-cpu-1", "local-cpu"], repeats=3)
    first = Store.create(tmp_path / "runs", make_plan(asked))
    reported_again(first, {"local-cpu-1": 100.0, "local-cpu": 200.0})
    plan, claims = plan_of_confirmation(first)
    assert [(claim.best, claim.by, claim.case.workload) for claim in claims[:1]] == [
        ("local-cpu", "number", "serve")
    ]
    assert plan.cases == first.plan.cases and plan.estimate_s > 0
    second = Store.create(tmp_path / "runs", plan)
    reported_again(second, {"local-cpu-1": 100.0, "local-cpu": 198.0})
    confirmation = judged(second.records()[0], second).finding(Confirmation)
    assert confirmation.verdict is Confirmed.CONFIRMED and not confirmation.missing


def reported_again(store, rates):
    for machine in store.plan.hardware:
        for repeat in store.plan.repeats_on(machine):
            rate = MetricValue(
                "tokens/s", "tokens/s", Better.HIGHER, rates[machine.name] + repeat.repeat / 10
            )
            run = ScriptRun(("true",), repeat.script.code, program=ProgramRun(60.0, metrics=(rate,)))
            one = record(1.0, repeat.case, machine.name, repeat.repeat, run=store.plan.run)
            store.add(replace(one, wall=None, work=None, script=run))
