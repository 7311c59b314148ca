import sys
import time

import pytest

from tasks.errors import GridbenchError
from tasks.planning import memory
from tasks.planning.hardware import load_hardware
from tasks.planning.memory import Predicted, _answers, room_of, unfit
from tasks.planning.plan import PlannedCase
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from workloads.harness.checks.fits import Fit, Needs, fit
from workloads.harness.records.case import Case, Cell

GIB = 2**30
PYTHON = sys.executable
CASES = """
[[cases]]
workload = "mnist"
size = { batch = [16, 64, 4096] }
precision = ["fp32", "fp16"]
"""


@pytest.fixture
def asked(monkeypatch):
    """The predicted cells: a unit of the batch takes 10 MiB in fp32."""
    monkeypatch.delenv("GRIDBENCH_FITS")
    seen = []

    def predict(cells):
        found = []
        for machine, case in cells:
            seen.append(f"{machine.name}/{case.case.id}")
            peak = case.size["batch"] * GIB // (100 if case.precision == "fp32" else 10_000)
            needs, room = Needs(machine.device, peak, peak), room_of(machine, case)
            cell = Cell(machine.name, case.case)
            found.append(Predicted(cell, needs, room, fit(needs, room), "batch=1200"))
        return found

    monkeypatch.setattr(memory, "predict", predict)
    return seen


def planned(tmp_path, *hardware):
    path = tmp_path / "mnist.toml"
    path.write_text(CASES)
    return make_plan(RunRequest(suite=str(path), hardware=hardware, repeats=1))


def test_a_case_too_large_for_a_rented_machine_is_skipped_with_a_size_that_fits(tmp_path, asked):
    plan = planned(tmp_path, "aws-g4dn.xlarge")
    case = Case.of("mnist", {"batch": 4096}, "fp32")
    assert plan.skipped_on("aws-g4dn.xlarge") == {
        case: "the tensors alone need 44 GB (predicted), and aws-g4dn.xlarge has 17.2 GB; batch=1200 should fit"
    }


def test_cases_smaller_than_a_fitting_case_are_not_predicted(tmp_path, asked):
    planned(tmp_path, "aws-g4dn.xlarge")
    assert sorted(asked) == [
        "aws-g4dn.xlarge/mnist/batch=4096/fp16",
        "aws-g4dn.xlarge/mnist/batch=4096/fp32",
        "aws-g4dn.xlarge/mnist/batch=64/fp32",
    ]


def test_this_machine_can_just_try_and_an_unknown_one_too(tmp_path, asked):
    plan = planned(tmp_path, "local-cpu")
    assert asked == [] and plan.skips == ()
    machine = load_hardware("aws-c5.2xlarge").model_copy(update={"memory_gb": None})
    assert unfit([(machine, PlannedCase.of(Case.of("mnist", {"batch": 16}), None))]) == {} and asked == []


def test_memory_prediction_can_be_switched_off(tmp_path, asked, monkeypatch):
    monkeypatch.setenv("GRIDBENCH_FITS", "off")
    assert planned(tmp_path, "aws-g4dn.xlarge").skips == () and asked == []


def test_a_plan_is_made_where_nothing_can_be_predicted(tmp_path, monkeypatch):
    monkeypatch.delenv("GRIDBENCH_FITS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(memory.sys, "executable", "/no/python")
    assert planned(tmp_path, "aws-g4dn.xlarge").skips == ()


def test_too_close_to_tell_is_measured():
    room = room_of(load_hardware("aws-g4dn.xlarge"), PlannedCase.of(Case.of("mnist", {"batch": 16}), None))
    needs = Needs("cuda", 15 * GIB, 15 * GIB)
    found = Predicted(Cell("m", Case.of("mnist", {"batch": 16})), needs, room, fit(needs, room), "")
    assert found.fit is Fit.CLOSE and found.reason is None


@pytest.fixture
def answering(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tasks.planning.memory._code", lambda own: "x")

    def put(text):
        program = tmp_path / "python"
        program.write_text(f"#!{PYTHON}\nimport json, sys, time\nasked = json.load(sys.stdin)\n{text}\n")
        program.chmod(0o700)
        monkeypatch.setattr("tasks.planning.memory.sys.executable", str(program))

    return put


ANSWER = "print(json.dumps({'peak_bytes': 2}), flush=True)"
TWO = [{"n": 1}, {"n": 2}]


def test_an_answer_is_kept_as_soon_as_it_is_there(answering, monkeypatch):
    monkeypatch.setattr("tasks.planning.memory.TIMEOUT_S", 0.5)
    answering(f"{ANSWER}\ntime.sleep(99)")
    with pytest.raises(GridbenchError, match=r"can't be predicted: one took longer than 0\.5 s$"):
        _answers(TWO)
    answering(f"assert len(asked) == 1\n{ANSWER}")
    monkeypatch.setattr("tasks.planning.memory.TIMEOUT_S", 30)
    assert [answer["peak_bytes"] for answer in _answers(TWO)] == [2, 2]
    answering("raise SystemExit('it is asked again')")
    assert len(_answers(TWO)) == 2


def test_processes_of_a_script_do_not_delay_the_plan(answering, monkeypatch):
    monkeypatch.setattr("tasks.planning.memory.TIMEOUT_S", 0.5)
    answering("import subprocess\nsubprocess.Popen(['sleep', '99'])\ntime.sleep(99)")
    begun = time.monotonic()
    with pytest.raises(GridbenchError, match="took longer"):
        _answers(TWO)
    assert time.monotonic() - begun < 50


def test_why_nothing_can_be_predicted_is_reported(answering):
    answering("raise SystemExit('No module named torch')")
    with pytest.raises(GridbenchError, match="can't be predicted: No module named torch"):
        _answers(TWO)
    answering("sys.exit(3)")
    with pytest.raises(GridbenchError, match="can't be predicted: exit code 3"):
        _answers(TWO)
