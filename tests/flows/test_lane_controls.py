"""The flow `lane`: a reference that it is given reaches every repeat, and what became of the control is said."""

import logging
from dataclasses import replace

import pytest

from flows import lane as module
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat

REPEATS = [Repeat("a-run", "a-box", Case.of("matmul", {"n": 8}), repeat=number) for number in (1, 2)]
CONTROL = Control("", "unsupported", ("it is not there",))


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The arguments of every repeat that the lane has measured, by something that measures nothing."""
    found = []

    def measure(repeat, ended, say, command, reference):
        found.append((repeat.repeat, reference))
        record = repeat.failed(Verdict.OK, "fine")
        return replace(record, control=CONTROL) if reference else record

    monkeypatch.chdir(tmp_path)  # the flow goes to the checkout, and the test back from there
    monkeypatch.setattr(module, "measure_or_skip", measure)
    monkeypatch.setattr(module, "send", lambda record, say: None)
    monkeypatch.setattr(module, "kept", lambda repeat: None)
    monkeypatch.setattr(module, "get_run_logger", lambda: logging.getLogger("lane"))
    return found


def test_each_repeat_has_a_control_by_the_reference(measured, caplog):
    caplog.set_level(logging.INFO, "lane")
    assert module.lane.fn(REPEATS, None, ["a", "reference"]).is_completed()
    assert measured == [(1, ["a", "reference"]), (2, ["a", "reference"])]
    assert caplog.messages.count("its control: unsupported it is not there") == 2


def test_without_one_there_are_no_controls(measured, caplog):
    caplog.set_level(logging.INFO, "lane")
    assert module.lane.fn(REPEATS).is_completed()
    assert measured == [(1, ()), (2, ())]
    assert "control" not in caplog.text
