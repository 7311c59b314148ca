"""Records in words: what a terminal shows of a user's own script."""

import pytest

from workloads.harness.records.script import JobTime, ScriptRun
from workloads.harness.records.text import script_facts


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (
            JobTime(1260, 150.8, 100.0, 201.6, epochs=20),
            "2.51 min for 1,260 steps in 20 epochs, predicted from this repeat alone (100 s – 3.36 min)",
        ),
        (JobTime(10_000, 7300, 7000, 7600), "2.03 h for 10,000 steps, predicted from this repeat alone ("),
        (JobTime(9, 45, 45, 45, 1, measured=True), "45 s for 9 steps in 1 epoch, measured to its end"),
    ],
)
def test_the_whole_job_of_a_script_is_said(job, words):
    ((name, text),) = script_facts(ScriptRun(("train.py",), job=job))
    assert name == "whole job" and text.startswith(words)


def test_what_a_step_goes_to_is_said_with_the_largest_first():
    shares = {"loader": 0.034, "compute": 0.953, "other": 0.013}
    assert script_facts(ScriptRun(("train.py",), shares=shares)) == [
        ("a step goes to", "compute 95%, loader 3%, other 1%")
    ]
    assert script_facts(ScriptRun(("train.py",))) == []
