import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from gridbench.main import app
from gridbench.terminal import console
from tasks.imported import run_of
from tasks.store.store import Store
from tests.tasks.examples.records import record
from tests.tasks.examples.two_cards import two_cards


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Store records as a run, and predict from it; return exit code and output."""
    monkeypatch.setattr(console, "_width", 240)  # it keeps the COLUMNS of its first use

    def said(records, *words, name=None):
        plan, kept = run_of(records, {"h100": 2.49} if records[0].hardware == "h100" else {})
        store = Store.create(tmp_path, plan)
        for each in kept:
            store.add(each)
        ended = CliRunner().invoke(app, ["predict", name or plan.run, "--results", str(tmp_path), *words])
        return ended.exit_code, ended.output, ended.exception

    return said


def test_every_machine_gets_a_time_a_price_and_their_source(call):
    records = [r for r in two_cards() if r.case.workload == "gpt2_train" and r.hardware == "h100"]
    code, text, _ = call(records, "--on", "aws-p5en.48xlarge", "--on", "aws-g6e.xlarge")
    rows = {line.split()[0]: line for line in text.splitlines() if "data sheets" in line}
    assert code == 0 and list(rows) == ["aws-p5en.48xlarge", "aws-g6e.xlarge"]
    assert all(re.search(r"\d ms \(\d+–\d+\).*× \(.*\$\d.*\(.*host unknown", line) for line in rows.values())


def test_the_reason_for_a_missing_prediction_is_printed_once_for_all_machines(call):
    records = [r for r in two_cards() if r.case.workload == "gpt2_train" and r.hardware == "h100"]
    blind = [replace(r, device_busy_s=None) for r in records]
    code, text, _ = call(blind)
    assert code == 0 and "data sheets" not in text
    assert "no prediction for" in text and "for how long the card waits" in text


def test_a_cpu_without_a_roof_predicts_nothing(call):
    code, text, _ = call([record(1.0, hardware="here")], "--on", "aws-c5.2xlarge")
    assert code == 0 and "the rates of here in fp32 are unknown" in text


def test_a_prediction_for_an_unmeasured_script_is_refused_with_advice(call):
    code, _, error = call([record(1.0, hardware="here")], name="train.py")
    assert code != 0 and "has measured train.py; measure it on any machine first" in str(error)


def test_the_score_of_earlier_predictions_is_shown(call):
    code, text, _ = call([record(1.0, hardware="here")], "--score", name="any")
    assert code == 0 and "no prediction has been measured since" in text


def test_offers_are_predicted_and_the_next_to_measure_is_named(call):
    records = [r for r in two_cards() if r.case.workload == "gpt2_train" and r.hardware == "h100"]
    code, text, error = call(records, "--offers")
    rows = [line for line in text.splitlines() if "data sheets" in line or "the same card" in line]
    assert code == 0 and len(rows) > 30 and any("b200" in row.lower() for row in rows), error
    assert re.search(r"To find the fastest, measure .* next, for about .* USD: with a chance of \d+%", text)
    assert "To find the cheapest" in text or "The cheapest is h100" in text
