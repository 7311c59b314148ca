"""Records in words: what a terminal shows of a user's own script."""

from dataclasses import replace

import pytest

from tests.workloads.harness.records.timings import FULL, timing
from workloads.harness.records.record import Verdict
from workloads.harness.records.script import JobTime, ScriptRun
from workloads.harness.records.text import line, script_facts
from workloads.harness.records.verdict import judge


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


@pytest.mark.parametrize(
    ("low_s", "high_s", "words", "reason"),
    [
        (0.99, 1.02, "±1.5%", "it is known to ±1.5%"),
        (0.6, 1.9, "±65.0%", "it is known to ±65.0%"),
        (0.9, 339.0, "unknown", "it can be wrong by more than a factor of 2"),
        (0.4, 1.1, "unknown", "it can be wrong by more than a factor of 2"),
        (None, None, "–", "before the cap"),
    ],
)
def test_a_precision_that_says_nothing_has_no_percent(low_s, high_s, words, reason):
    wall = timing(median_s=1.0, ci_low_s=low_s, ci_high_s=high_s)
    assert line(replace(FULL, wall=wall, device_time=None))[2] == words
    ((verdict, text),) = judge(wall, {}, 0.0, None)
    assert verdict is Verdict.IMPRECISE and text.endswith(reason)


def test_what_a_step_goes_to_is_said_with_the_largest_first():
    shares = {"loader": 0.034, "compute": 0.953, "other": 0.013}
    assert script_facts(ScriptRun(("train.py",), shares=shares)) == [
        ("a step goes to", "compute 95%, loader 3%, other 1%")
    ]
    assert script_facts(ScriptRun(("train.py",))) == []
