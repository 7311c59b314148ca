"""What earlier runs of the same machine in a results store show about its sessions."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tasks.earlier_sessions import sessions_of
from tasks.findings.totals import CommonCases
from tasks.gather import judged
from tasks.imported import SUITE as IMPORTED
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.results.sessions import ENOUGH, SESSION_EFFECT
from tasks.store.store import Store
from tests.tasks.examples.records import record
from workloads.harness.records.record import Verdict, Work

MACHINE = "local-cpu"
NOW = datetime(2026, 7, 24, tzinfo=UTC)
DAY = timedelta(days=1)


def stored(results, name, at, effect=0.0, print_id="same", verdict=Verdict.OK, **plan):
    """A run of the suite `quick`, with a record of every repeat."""
    made = make_plan(RunRequest(suite="quick", hardware=[MACHINE], seed=7))
    made = made.model_copy(update={"run": name, "created_at": at.isoformat(), **plan})
    store = Store.create(results, made)
    for repeat in store.plan.repeats_on(made.hardware[0]):
        one = record(0.1 * np.exp(effect), repeat.case, MACHINE, repeat.repeat, run=name)
        store.add(replace(one, verdict=verdict, work=Work(1, "steps", None, None), environment_id=print_id))
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
    ],
)
def test_what_differs_in_more_than_its_session_shows_nothing(tmp_path, changes):
    days(tmp_path, **changes)
    assert known(stored(tmp_path, "mine", NOW)).runs == 0


def test_later_runs_and_runs_in_a_row_do_not_count(tmp_path):
    days(tmp_path, count=2)
    stored(tmp_path, "later", NOW + DAY, 0.5)
    stored(tmp_path, "just before", NOW - timedelta(minutes=10), 0.5)
    stored(tmp_path, "just before day-0", NOW - DAY - timedelta(minutes=10), 0.5)
    found = known(stored(tmp_path, "mine", NOW))
    assert found.runs == 2 and found.is_assumed


def test_a_damaged_run_shows_nothing(tmp_path):
    days(tmp_path)
    (tmp_path / "day-0" / "plan.json").write_text("{")
    assert known(stored(tmp_path, "mine", NOW)).runs == ENOUGH - 1


def test_the_comparison_of_a_stored_run_has_it(tmp_path):
    days(tmp_path)
    mine = stored(tmp_path, "mine", NOW)
    assert judged(mine.records()[0], mine).answer
    assert CommonCases((), {}).between(MACHINE, "other") == []
