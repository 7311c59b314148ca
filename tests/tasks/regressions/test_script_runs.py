from dataclasses import replace
from datetime import timedelta

import pytest

from tasks.findings.two_runs import ComparedRun
from tasks.planning.channel import Night
from tasks.regressions.explain import commits
from tasks.regressions.night import judge_night
from tasks.regressions.run_gate import CellStatus, compare_cells
from tasks.regressions.tickets import verdicts_of
from tasks.results.confounds import confounds
from tasks.store.frames import results_table
from tests.tasks.examples.nights import FIRST, keep, run_name
from tests.tasks.examples.records import ENVIRONMENT
from tests.tasks.examples.scripts import own, plan_of, ran

CALM = (1.0, 1.004, 0.997)


def records_of(plan, slow=1.0):
    repeats = plan.repeats_on(plan.hardware[0])
    return [ran(slow * CALM[repeat.repeat - 1], repeat) for repeat in repeats]


@pytest.fixture
def before(tmp_path):
    return plan_of(tmp_path, "[16]", run="before")


@pytest.fixture
def after(tmp_path, before):
    (tmp_path / "code" / "model.py").write_text("width = 2")
    return plan_of(tmp_path, "[16]", run="after")


def test_other_code_is_a_confound_and_the_same_code_is_not(before, after):
    old, new = (plan.cases[0].script.code.removeprefix("sha256:")[:12] for plan in (before, after))
    assert confounds(records_of(after), records_of(before)) == (f"other code: {new} against {old}",)
    assert confounds(records_of(before), records_of(before)) == ()


def test_a_gate_sees_that_new_code_is_slower_and_says_that_it_is_other_code(before, after):
    sides = [
        ComparedRun(plan.run, tuple(records_of(plan, slow)), tuple(plan.machines), plan.baseline)
        for plan, slow in ((after, 1.3), (before, 1.0))
    ]
    compared = compare_cells(*sides, set(after.cells))
    (cell,) = compared.cells
    assert cell.status is CellStatus.SLOWER and cell.cell.case == own(16)
    assert any(note.startswith("local-cpu: other code: ") for note in compared.notes)


def test_a_ticket_of_a_script_names_the_scripts_own_code(before, after):
    environment = ENVIRONMENT | {"commit": "c" * 40}
    old, new = (
        results_table([replace(r, environment=environment) for r in records_of(plan)])["commit"][0]
        for plan in (before, after)
    )
    assert old == before.cases[0].script.code
    changed, same = commits(old, new), commits(old, old)
    assert changed == f"The code of the script is {new[7:19]} now, and was {old[7:19]}."
    assert "the cause is not that code" in same and commits(old, "c" * 40) == ""


def test_nights_of_a_script_are_a_series_in_which_a_slow_one_is_a_suspect(tmp_path):
    for number in range(12):
        created_at = (FIRST + timedelta(days=number)).isoformat()
        plan = plan_of(tmp_path, "[16]", run=run_name(number), night=Night())
        plan = plan.model_copy(update={"created_at": created_at})
        keep(tmp_path / "results", plan, records_of(plan, 1.2 if number == 11 else 1 + 0.002 * (number % 3)))
    judged = judge_night(tmp_path / "results", run_name(11))
    assert {name: [*cases] for name, cases in judged.to_confirm.items()} == {"local-cpu": [own(16).id]}
    assert "1 suspect" in verdicts_of(judged).answer
