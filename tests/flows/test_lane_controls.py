from dataclasses import replace

import pytest

from flows import lane
from infra.images.errors import ImageError
from infra.images.reference import Reference
from tasks.delivery import unsent_records
from tasks.travel.job_setup import JobSetup, PreparedScript
from tests.workloads.harness.repeat.controls import printing, repeat_of
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script

REPEATS = [Repeat("a-run", "a-box", Case.of("matmul", {"n": 8}), repeat=number) for number in (1, 2)]
CONTROL = Control("", "unsupported", ("it is not there",))


@pytest.fixture
def measured(monkeypatch, tmp_path):
    found = []

    def measure(repeat, ended, say, command, reference, forks, other):
        found.append((repeat.repeat, reference))
        record = repeat.failed(Verdict.OK, "fine")
        return replace(record, control=CONTROL) if reference else record

    monkeypatch.setattr(lane, "measure_or_skip", measure)
    monkeypatch.setattr(unsent_records, "FOLDER", tmp_path)
    return found


def test_each_repeat_has_a_control_by_the_reference(measured):
    said, sent = [], []
    assert lane.measure_all(REPEATS, said.append, sent.append, ["python"], ["a", "reference"]) == 2
    assert measured == [(1, ("a", "reference")), (2, ("a", "reference"))]
    assert said.count("its control: unsupported it is not there") == 2 and len(sent) == 2


def test_another_version_is_measured_beside_each_repeat_by_its_own_command(box_lock, monkeypatch, tmp_path):
    monkeypatch.setattr(unsent_records, "FOLDER", tmp_path)
    sent = []
    versions = printing(), printing(environment_id="there")
    lane.measure_all([repeat_of()], print, sent.append, versions[0], (), partner=versions[1])
    assert (sent[0].environment_id, sent[0].control.environment_id) == ("here", "there")


def test_another_version_of_a_script_runs_its_own_code(box_lock, monkeypatch, tmp_path):
    monkeypatch.setattr(unsent_records, "FOLDER", tmp_path)
    scripts = Script(("train.py",), "v2"), Script(("train.py",), "v1")
    here = {
        script: PreparedScript(replace(script, folder=str(tmp_path)), printing(environment_id=script.folder))
        for script in scripts
    }
    sent, repeat = [], replace(repeat_of(), script=scripts[0], partner=scripts[1])
    lane.measure_all([repeat], print, sent.append, ["python"], ["frozen"], JobSetup(here))
    assert (sent[0].environment_id, sent[0].control.environment_id) == ("v2", "v1")


def test_without_one_there_are_no_controls(measured):
    said = []
    lane.measure_all(REPEATS, said.append, lambda record: None, ["python"], [])
    assert measured == [(1, ()), (2, ())]
    assert not any("control" in line for line in said)


def test_a_repeat_hears_of_those_before_it_that_tell_it_something(monkeypatch, tmp_path):
    """All of them would be read a thousand times in a job of a thousand."""
    heard = []

    def measure(repeat, ended, say, command, reference, forks, other):
        heard.append([record.repeat for record in ended])
        return repeat.failed(Verdict.OUT_OF_MEMORY if repeat.repeat == 2 else Verdict.CRASHED, "by order")

    monkeypatch.setattr(lane, "measure_or_skip", measure)
    monkeypatch.setattr(unsent_records, "FOLDER", tmp_path)
    four = [replace(REPEATS[0], repeat=number) for number in (1, 2, 3, 4)]
    assert lane.measure_all(four, print, lambda record: None, ["python"], []) == 4
    assert heard == [[], [], [2], [2]]


def test_auto_is_the_machines_own_and_without_one_there_are_no_controls(monkeypatch):
    made, warned = Reference("frozen", ("python-of-it", "-m", "workloads")), []
    monkeypatch.setattr(lane, "standing", lambda say: made)
    assert lane._frozen(("auto",), print, warned.append) == made.command
    assert lane._frozen(("a", "reference"), print, warned.append) == ("a", "reference")
    assert lane._frozen((), print, warned.append) == () and not warned

    def full(say):
        raise ImageError("no space is left")

    monkeypatch.setattr(lane, "standing", full)
    assert lane._frozen(("auto",), print, warned.append) == ()
    assert warned == ["no controls, because no environment could be frozen for them: no space is left"]


def test_a_lane_that_must_stop_measures_no_further_repeat(measured):
    sent, answers = [], iter([False, True])
    count = lane.measure_all(REPEATS, print, sent.append, ["python"], [], must_stop=lambda: next(answers))
    assert count == 1 and measured == [(1, ())] and len(sent) == 1
