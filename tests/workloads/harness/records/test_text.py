from dataclasses import replace

import pytest

from tests.workloads.harness.records.timings import FULL, timing
from workloads.harness.records.record import Verdict
from workloads.harness.records.script import JobTime, ScriptRun
from workloads.harness.records.text import UNSHOWN, line, rate_text, script_facts, script_step
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
def test_the_whole_job_of_a_script_is_reported(job, words):
    ((name, text),) = script_facts(ScriptRun(("train.py",), job=job))
    assert name == "whole job" and text.startswith(words)
    assert text.endswith(UNSHOWN) != job.measured


@pytest.mark.parametrize(("epochs", "unit"), [(3, "epochs"), (None, "steps")])
def test_a_job_of_which_a_part_was_never_seen_takes_at_least_its_time(epochs, unit):
    job = JobTime(2100, 216.0, 183.0, 248.0, epochs, left_out=("ends of epochs", "calls of torch.save"))
    ((_, text),) = script_facts(ScriptRun(("train.py",), job=job))
    assert text.startswith("at least 3.05 min for 2,100 steps") and "3.6 min (3.05 min – 4.13 min) " in text
    assert "without ends of epochs and calls of torch.save, of which none was seen" in text
    assert text.endswith(f"; --through N waits for N {unit}")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            {
                "step_of": "AdamW",
                "accumulation": 4.0,
                "samples": 48,
                "tokens": 48 * 1024,
                "samples_from": "loader",
                "epoch_steps": 1250,
            },
            "AdamW's; 4 backward calls; 48 samples of 1,024 tokens from the training loader; 1,250 steps an epoch",
        ),
        (
            {"step_of": "Adam:2", "optimizer_steps": {"Adam:1": 5.0, "Adam:2": 1.0}, "accumulation": 6.0},
            "Adam:2's with 5 of Adam:1; 6 backward calls",
        ),
        (
            {"counted": "backward", "accumulation": 1.0, "samples": 1, "samples_from": "model"},
            "a backward call; 1 sample in the calls of the model",
        ),
        (
            {"counted": "mark", "samples": 8, "samples_from": "declared"},
            "marked by the script; 8 samples as declared",
        ),
    ],
)
def test_a_step_is_described_by_its_end_and_its_samples(script, words):
    assert script_step(ScriptRun(("train.py",), **script)) == words
    doubted = ScriptRun(("train.py",), steps=1380, doubts=("samples: two loaders",), **script)
    assert script_facts(doubted) == [("a step", f"{words}; 1,380 seen"), ("unknown", "samples: two loaders")]


@pytest.mark.parametrize(
    ("low_s", "high_s", "words", "reason"),
    [
        (0.99, 1.02, "±1.5%", "the median is known to ±1.5% after"),
        (0.6, 1.9, "±65.0%", "the median is known to ±65.0% after"),
        (0.9, 339.0, "unknown", "not known within a factor of 2 after"),
        (0.4, 1.1, "unknown", "not known within a factor of 2 after"),
        (None, None, "–", "are too few to bound the median"),
    ],
)
def test_a_precision_that_says_nothing_has_no_percent(low_s, high_s, words, reason):
    wall = timing(median_s=1.0, ci_low_s=low_s, ci_high_s=high_s)
    assert line(replace(FULL, wall=wall, device_time=None))[2] == words
    ((verdict, text),) = judge(wall, {}, 0.0, None)
    assert verdict is Verdict.IMPRECISE and reason in text


@pytest.mark.parametrize(
    ("low_s", "high_s", "batches", "words", "reason"),
    [
        (1.96, 2.04, 20, "±2.0%", "the mean is known to ±2.0% after"),
        (1.9, 2.1, 4, "±5.0%", "are worth 4 independent ones"),
        (None, None, 2, "–", "are worth 2 independent ones"),
    ],
)
def test_a_newer_record_states_how_well_its_mean_is_known(low_s, high_s, batches, words, reason):
    bounds = {"mean_low_s": low_s, "mean_high_s": high_s, "batches": batches}
    wall = timing(median_s=1.0, mean_s=2.0, ci_low_s=0.99, ci_high_s=1.01, samples_s=(2.0,) * 20, **bounds)
    assert line(replace(FULL, wall=wall, device_time=None))[2] == words
    ((verdict, text),) = judge(wall, {}, 0.0, None)
    assert verdict is Verdict.IMPRECISE and reason in text


def test_the_shares_of_a_step_are_printed_largest_first():
    shares = {"loader": 0.034, "compute": 0.953, "other": 0.013}
    assert script_facts(ScriptRun(("train.py",), shares=shares)) == [
        ("a step goes to", "compute 95%, loader 3%, other 1%")
    ]
    assert script_facts(ScriptRun(("train.py",))) == []


@pytest.mark.parametrize(
    ("mean_s", "of_script_s", "words"),
    [
        (1.02, None, "1 s"),
        (1.5, None, "1.5 s mean, 1 s median"),
        (1.02, 3.0, "3 s mean, 1 s median"),
    ],
)
def test_a_mean_well_above_the_median_stands_first(mean_s, of_script_s, words):
    step = timing(median_s=1.0, mean_s=mean_s)
    script = ScriptRun(("train.py",), mean_s=of_script_s) if of_script_s else None
    assert line(replace(FULL, wall=step, device_time=None, script=script))[1] == words


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (7.101e14, "FLOP/s", "710.1 TFLOP/s"),
        (370_400.0, "tokens/s", "370,400 tokens/s"),
        (12.345, "images/s", "12.35 images/s"),
    ],
)
def test_a_rate_has_a_prefix_or_separators(value, unit, words):
    assert rate_text(value, unit) == words
