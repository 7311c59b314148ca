import pytest

from tasks.planning.hardware import load_hardware
from tasks.planning.memory import Predicted
from tasks.prediction import unmeasured
from tasks.prediction.evidence import Evidence
from tasks.prediction.unmeasured import FACTOR, predict_unmeasured
from workloads.harness.checks.fits import Fit, Needs, Room, StepWork
from workloads.harness.records.case import Case, Cell

CASE = Case.of("train", {}, "own")
STEP = StepWork(20e12, 100e9, 2000)  # as GPT-2 with 355 million parameters


@pytest.fixture
def predicted(monkeypatch):
    def on(name, step=STEP, fit=Fit.FITS, reason=""):
        machine = load_hardware(name)
        needs = Needs("cuda", 30 * 2**30, 30 * 2**30, reason, step)
        found = Predicted(Cell(name, CASE), needs, Room(name, 24e9), fit, "")
        monkeypatch.setattr(unmeasured, "predict_memory", lambda pairs, with_step: [found])
        (row,) = predict_unmeasured([None], [machine], Evidence())
        return row

    return on


def test_a_faster_card_is_faster_and_the_interval_is_wide(predicted):
    slow, fast = predicted("aws-g6.xlarge"), predicted("aws-p5.4xlarge")
    assert 0.045 < fast.step_s.value < 0.1 < slow.step_s.value
    for row in (slow, fast):
        assert 0.7 * FACTOR**2 < row.step_s.high / row.step_s.low < 1.1 * FACTOR**2
        assert row.rests_on[0].startswith("no record") and sum(row.parts.values()) == pytest.approx(1)


def test_a_step_of_many_launches_is_bound_by_its_host(predicted):
    row = predicted("aws-p5.4xlarge", StepWork(1e9, 1e8, 5000))
    assert row.bound.startswith("host") and row.step_s.value > 0.03


def test_a_case_that_does_not_fit_or_cannot_be_counted_is_refused_with_the_reason(predicted):
    row = predicted("aws-g6.xlarge", fit=Fit.NO)
    assert row.is_impossible and "alone need" in row.refused and row.step_s is None
    row = predicted("aws-g6.xlarge", step=None, reason="SystemExit: no data here")
    assert row.refused == "SystemExit: no data here: measure it on any machine first"
