from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tasks import earlier_sessions
from tasks.earlier_sessions import _earlier, sessions_of
from tasks.findings.totals import CommonCases
from tasks.gather import judged
from tasks.imported import SUITE as IMPORTED
from tasks.planning.planner import make_plan
from tasks.planning.rent_terms import RentTerms
from tasks.planning.request import RunRequest
from tasks.results.sessions import ENOUGH, SESSION_EFFECT
from tasks.store.frames import results_table
from tasks.store.store import Store
from tasks.travel.run_code import WORKLOADS_HASH
from tests.tasks.examples.records import record
from workloads.harness.records.record import Verdict, Work
from workloads.harness.records.script import Script, ScriptRun

MACHINE = "local-cpu"
NOW = datetime(2026, 7, 24, tzinfo=UTC)
DAY = timedelta(days=1)


CODE = {"commit": "c" * 40, "code": "0123456789ab"}
TRAIN = Script(("train.py",), "/here", f"sha256:{'1' * 64}")


def stored(
    results, name, at, effect=0.0, print_id="same", verdict=Verdict.OK, code=CODE, of_cases=None, **plan
):
    """Write a run of `quick` with a record of every repeat; `of_cases` are fields of its planned cases."""
    made = make_plan(RunRequest(suite="quick", hardware=[MACHINE], seed=7))
    cases = tuple(planned.model_copy(update=of_cases or {}) for planned in made.cases)
    made = made.model_copy(update={"run": name, "created_at": at.isoformat(), "cases": cases, **plan})
    store = Store.create(results, made)
    for repeat in store.plan.repeats_on(made.hardware[0]):
        one = record(0.1 * np.exp(effect), repeat.case, MACHINE, repeat.repeat, run=name)
        one = replace(one, verdict=verdict, work=Work(1, "steps", None, None), environment_id=print_id)
        if repeat.script:
            one = replace(one, script=ScriptRun(repeat.script.command, repeat.script.code))
        store.add(replace(one, environment=one.environment | code))
    return store


def days(results, effect=0.02, count=ENOUGH, **changes):
    rng = np.random.default_rng(3)
    for number in range(count):
        stored(results, f"day-{number}", NOW - (number + 1) * DAY, rng.normal(0, effect), **changes)


def known(store):
    return sessions_of(store, store.records()[0]).effects[MACHINE]


def test_without_earlier_runs_the_effect_is_assumed(tmp_path):
    mine = stored(tmp_path, "mine", NOW)
    assert (known(mine).whole, known(mine).runs) == (SESSION_EFFECT, 0)
    other = stored(tmp_path, "other", NOW, session_effect=0.03)
    assert known(other).whole == 0.03


def test_earlier_runs_of_the_same_machine_show_it(tmp_path):
    days(tmp_path)
    found = known(stored(tmp_path, "mine", NOW))
    assert found.runs == ENOUGH and found.freedom == ENOUGH - 1
    effects = np.random.default_rng(3).normal(0, 0.02, ENOUGH)
    assert found.whole == pytest.approx(np.std(effects, ddof=1), rel=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"print_id": "another machine"},
        {"verdict": Verdict.NOISY},
        {"verdict": Verdict.THROTTLED},
        {"suite": IMPORTED},
        {"quick": False},
        {"code": CODE | {"code": "ba9876543210"}},
        {"code": {}},
        {"of_cases": {"threads": 1}},
        {"of_cases": {"soak_s": 60.0}},
        {"of_cases": {"script": TRAIN}},
    ],
)
def test_runs_that_differ_in_more_than_their_session_are_ignored(tmp_path, changes):
    days(tmp_path, **changes)
    assert known(stored(tmp_path, "mine", NOW)).runs == 0


def test_scripts_are_the_same_by_their_code_and_their_command(tmp_path):
    days(tmp_path, of_cases={"script": TRAIN})
    elsewhere = replace(TRAIN, folder="/there", dirty=True)
    assert known(stored(tmp_path, "mine", NOW, of_cases={"script": elsewhere})).runs == ENOUGH
    for name, script in (
        ("edited", replace(TRAIN, code=f"sha256:{'2' * 64}")),
        ("longer", replace(TRAIN, command=("train.py", "--layers", "9"))),
        ("unknown", replace(TRAIN, code="")),
    ):
        assert known(stored(tmp_path, name, NOW, of_cases={"script": script})).runs == 0


def test_own_workloads_are_the_same_by_the_hash_of_their_files(tmp_path):
    days(tmp_path)
    mine = stored(tmp_path, "mine", NOW)
    for folder, text in ((mine.folder, "a"), *((tmp_path / f"day-{i}", "ab"[i > 3]) for i in range(ENOUGH))):
        (folder / "code").mkdir()
        (folder / "code" / WORKLOADS_HASH).write_text(text)
    assert known(mine).runs == 4


@pytest.mark.parametrize(("commit", "count"), [("c" * 40, ENOUGH), ("d" * 40, 0)])
def test_a_table_without_the_hash_of_files_counts_by_its_commit(tmp_path, commit, count):
    days(tmp_path, code=CODE | {"commit": commit})
    for number in range(ENOUGH):
        folder = tmp_path / f"day-{number}"
        table = results_table(Store(folder).records()[0])
        assert set(table["code"]) == {CODE["code"]}
        table.drop(columns="code").to_parquet(folder / "results.parquet", index=False)
    assert known(stored(tmp_path, "mine", NOW)).runs == count


def test_later_runs_do_not_displace_earlier_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(earlier_sessions, "MOST_FOLDERS", ENOUGH)
    days(tmp_path)
    for number in range(ENOUGH):
        stored(tmp_path, f"later-{number}", NOW + (number + 1) * DAY, 0.5)
    assert known(stored(tmp_path, "mine", NOW)).runs == ENOUGH


def test_later_runs_and_runs_in_a_row_do_not_count(tmp_path):
    days(tmp_path, count=2)
    stored(tmp_path, "later", NOW + DAY, 0.5)
    stored(tmp_path, "just before", NOW - timedelta(minutes=10), 0.5)
    stored(tmp_path, "just before day-0", NOW - DAY - timedelta(minutes=10), 0.5)
    found = known(stored(tmp_path, "mine", NOW))
    assert found.runs == 2 and found.is_assumed


@pytest.mark.parametrize(
    ("rent", "sessions"), [(None, 1), (RentTerms(provider="lambda", instances=("a",)), 3)]
)
def test_each_box_that_an_earlier_run_rented_is_a_session(tmp_path, rent, sessions):
    (machine,) = make_plan(RunRequest(suite="quick", hardware=[MACHINE])).hardware
    hardware = (machine.model_copy(update={"rent": rent, "box": None, "pool": "ssh"}),)
    stored(tmp_path, "day-0", NOW - DAY, hardware=hardware, repeats=3, sessions=3)
    mine = stored(tmp_path, "mine", NOW, hardware=hardware, repeats=3)
    assert sum(map(len, _earlier(mine, mine.records()[0]).values())) == sessions


def test_a_damaged_run_shows_nothing(tmp_path):
    days(tmp_path)
    (tmp_path / "day-0" / "plan.json").write_text("{")
    assert known(stored(tmp_path, "mine", NOW)).runs == ENOUGH - 1


def test_the_comparison_of_a_stored_run_has_it(tmp_path):
    days(tmp_path)
    mine = stored(tmp_path, "mine", NOW)
    assert judged(mine.records()[0], mine).answer
    assert CommonCases((), {}).between(MACHINE, "other") == []
