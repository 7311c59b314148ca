import subprocess

import pytest

from tasks.errors import GridbenchError
from tasks.planning.channel import Night
from tasks.planning.plan import read_plan, skip_lines
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tests.tasks.examples.scripts import own, plan_of, suite_of
from workloads.harness.records.repeat import Repeat


def test_a_plan_has_the_code_of_its_scripts_and_its_repeats_carry_it(tmp_path):
    plan = plan_of(tmp_path)
    (script,) = {planned.script for planned in plan.cases}
    assert script.code.startswith("sha256:") and len(script.code) == 71
    assert script.folder == str(tmp_path / "code") and script.command[0] == "train.py"
    again = read_plan(plan.model_dump_json(), "plan.json")
    assert again == plan
    repeats = again.repeats_on(again.hardware[0])
    assert len(repeats) == 6 and {repeat.case for repeat in repeats} == {own(16), own(32)}
    assert {repeat.script for repeat in repeats} == {script}
    assert {Repeat.from_json(repeat.to_json()) for repeat in repeats} == set(repeats)


def test_other_code_is_another_id(tmp_path):
    plan = plan_of(tmp_path)
    assert plan_of(tmp_path).cases == plan.cases, "the same code is the same"
    (tmp_path / "code" / "model.py").write_text("width = 3\n")
    changed = plan_of(tmp_path)
    assert changed.cases[0].script.code != plan.cases[0].script.code


def test_uncommitted_code_and_guessed_values_are_noted(tmp_path):
    plan = plan_of(tmp_path, more="estimate_s = 20\nsteps = 900")
    assert [note.partition(":")[0] for note in plan.notes] == [
        f"{tmp_path / 'code'} is not in a git repository"
    ]
    code, who = tmp_path / "code", ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init",), ("add", "-A"), (*who, "commit", "-m", "first")):
        subprocess.run(["git", *words], cwd=code, check=True, capture_output=True)
    clean = plan_of(tmp_path, more="steps = 900")
    assert clean.notes == ("90 s a repeat are a guess for train: set estimate_s, the seconds of one repeat.",)
    assert clean.estimate_s == 10 + 2 * 3 * 90 and plan.estimate_s == 10 + 2 * 3 * 20
    assert not clean.cases[0].script.dirty
    (code / "model.py").write_text("width = 3\n")
    dirty = plan_of(tmp_path, more="estimate_s = 20\nepochs = 3")
    assert dirty.notes == (f"the code in {code} is not all in a commit; it is measured as it is.",)
    assert dirty.cases[0].script.dirty


@pytest.mark.parametrize("length", ["steps = 900", "epochs = 3", "whole = true", ""])
def test_a_job_of_no_length_is_reported(tmp_path, length):
    said = "Without steps or epochs no hours and USD of a job: train."
    assert (said in plan_of(tmp_path, more=length).notes) == (not length)


def test_steps_that_the_estimate_leaves_out_are_noted(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "requirements.txt").write_text("tqdm\n")
    more = 'packages = "requirements.txt"\ndata = "s3://sets/x"\nsteps = 9'
    suite = suite_of(tmp_path, more=more, run="train.py --batch {batch} --data {data}")
    plan = make_plan(RunRequest(suite=str(suite), hardware=["local-cpu"]))
    assert (
        "The estimate counts no time for the installation of requirements.txt and the copy of s3://sets/x."
        in plan.notes
    )
    assert not any("counts no time" in note for note in plan_of(tmp_path, more="steps = 9").notes)


def test_ranks_that_a_machine_has_no_room_for_are_skipped(tmp_path):
    plan = plan_of(tmp_path, more="processes = 4096")
    (line,) = skip_lines(plan)
    assert line.startswith("2 cells skipped on local-cpu: 4096 processes measure together, but local-cpu has")
    assert {record.verdict.value for record in plan.skipped()} == {"skipped"}


def test_a_night_watches_one_size_of_a_script_and_doubles_nothing_for_controls(tmp_path):
    night = Night(cases=(own(32).id,))
    (planned,) = plan_of(tmp_path, night=night).cases
    assert planned.case == own(32) and planned.script
    assert plan_of(tmp_path, night=night).estimate_s == 10 + 3 * 90


def test_a_mistake_in_a_script_is_one_sentence_of_the_plan(tmp_path):
    path = suite_of(tmp_path)
    (tmp_path / "code" / "train.py").unlink()
    with pytest.raises(GridbenchError, match=r"suite mine\.toml: run names the file 'train\.py', which "):
        make_plan(RunRequest(suite=str(path), hardware=["local-cpu"]))
    with pytest.raises(GridbenchError, match=r"suite '.*gone\.toml' is unknown: "):
        make_plan(RunRequest(suite=str(tmp_path / "gone.toml"), hardware=["local-cpu"]))
