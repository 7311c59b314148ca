import io
import json
import math
import random
import re
import statistics
from dataclasses import replace

import pandas as pd
import pytest

from tasks.findings.compare import compare
from tasks.findings.script.held_back import HeldBacks
from tasks.findings.script.job import JobPrediction, WholeJobs
from tasks.findings.script.refused_job import RefusedJobs
from tasks.findings.script.training import SameTraining
from tasks.report.artifacts import stage_tables
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.findings import finding_files
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tasks.report.info import RunInfo
from tasks.report.text.comparison import full_text
from tests.tasks.examples.records import A10G, machine
from tests.tasks.examples.script_records import losses, run, script_repeats
from workloads.harness.records.case import Case
from workloads.harness.records.record import Memory, Verdict
from workloads.harness.records.script import JobTime

STEADY = (0.0999, 0.1, 0.1001)
GPU = {"device": "cuda", "environment": A10G, "memory": Memory(2**30, 3 * 2**30, 4 * 2**30)}
RUN = RunInfo("a-run", "train", "2026-07-24T02:00:11+00:00", 1, "0.1.0")


def compared(*groups, prices=()):
    records = [record for members in groups for record in members]
    names = list(dict.fromkeys(record.hardware for record in records))
    usd = dict(zip(names, prices, strict=False))
    return compare(records, [machine(name, usd.get(name, 1.0)) for name in names], names[0])


def three(hardware, factor=1.0, **changes):
    return script_repeats(hardware, [factor * seconds for seconds in STEADY], **changes)


def test_the_cheapest_and_the_fastest_machine_for_the_job_come_first_with_hours_and_usd():
    found = compared(three("a", 10.0), three("b", 100.0), three("c", 12.0), prices=(10.0, 0.5, 4.0))
    # 10,000 steps of 1.02 s and 5 s of start are 2.83 h; those of 10.2 s are 28.3 h
    assert found.finding(WholeJobs).details()[0] == (
        "Cheapest for this job of 10,000 steps: c, 13.61 USD (13.47–13.74), 3.401 h (3.367–3.436); "
        "fastest: a, 28.35 USD (28.06–28.63), 2.835 h (2.806–2.863)."
    )
    table = found.finding(WholeJobs).table()
    assert [(row[0], row[6], row[2]) for row in table.rows] == [
        ("c", 10_000, "cheapest"),
        ("b", 10_000, ""),
        ("a", 10_000, "fastest"),
    ]
    seconds = table.rows[0][3]
    assert seconds.value == pytest.approx(5 + 1.02 * 1.2 * 10_000, rel=1e-3)
    assert seconds.low < seconds.value < seconds.high


def test_machines_that_are_not_told_apart_are_tied_and_the_sentence_says_why():
    found = compared(three("a"), three("b", 1.001), prices=(1.0, 1.0))
    assert (
        found.finding(WholeJobs)
        .details()[0]
        .startswith("Cheapest and fastest for this job of 10,000 steps: undecided between a, ")
    )
    assert "spans 1" in found.finding(WholeJobs).details()[0]
    standings = {row[0]: row[2] for row in found.finding(WholeJobs).table().rows}
    assert set(standings.values()) == {"perhaps cheapest and perhaps fastest"}


def test_one_repeat_alone_decides_nothing_and_has_no_interval():
    found = compared(script_repeats("a", [0.1]), script_repeats("b", [0.5]))
    assert "undecided between a, ~0.28 USD, ~17 min and b" in found.finding(WholeJobs).details()[0]
    assert "one repeat has no interval" in found.finding(WholeJobs).details()[0]


def test_one_machine_is_cheapest_and_fastest_at_once():
    found = compared(three("a"), three("b", 5.0))
    assert (
        found.finding(WholeJobs)
        .details()[0]
        .startswith("Cheapest and fastest for this job of 10,000 steps: a, 0.28")
    )


def test_one_machine_alone_and_one_without_a_price():
    only = compared(three("a")).finding(WholeJobs).details()[0]
    assert only.startswith("On a this job of 10,000 steps takes 17.08 min (") and "and costs 0.28" in only
    found = compared(three("a"), three("b", 2.0), three("c", 3.0), prices=(None, 1.0, 2.0))
    assert "; without a price, so not ranked by cost: a." in found.finding(WholeJobs).details()[0]
    assert (
        found.finding(WholeJobs).details()[0].startswith("Cheapest for this job of 10,000 steps: b")
        and "fastest: a" in found.finding(WholeJobs).details()[0]
    )


def test_each_case_and_length_is_a_job_of_its_own():
    larger = Case.of("train", {"batch": 64}, "own")
    job = JobTime(3000, 600.0, 590.0, 610.0, epochs=3)
    found = compared(
        three("a"), three("b", 2.0), three("a", case=larger, job=job), three("b", case=larger, job=job)
    )
    assert (
        found.finding(WholeJobs)
        .details()[0]
        .startswith("Cheapest and fastest for the job of train batch=32 (10,000 steps): a")
    )
    assert "the job of train batch=64 (3 epochs, 3,000 steps)" in found.finding(WholeJobs).details()[1]


def test_without_a_length_nothing_is_said_of_a_job():
    found = compared(three("a", steps=None), three("b", steps=None))
    assert found.finding(WholeJobs).table() is None and found.finding(WholeJobs).details() == ()
    assert found.finding(HeldBacks).table() is not None


def test_a_job_of_which_no_repeat_saw_a_part_takes_at_least_its_time():
    def unseen(hardware, factor=1.0):
        return [
            replace(r, script=replace(r.script, job=replace(r.script.job, left_out=("ends of epochs",))))
            for r in three(hardware, factor)
        ]

    alone = compared(unseen("a")).finding(WholeJobs).details()[0]
    assert re.search(r"at least 17\S* min .*costs at least 0\.28\d* USD", alone), alone
    both = compared(unseen("a"), three("b", 5.0)).finding(WholeJobs).details()[0]
    assert both.count("at least") == 1 and "fastest for this job of 10,000 steps: a, at least 0.28" in both
    assert all(text.endswith("; provisional: no repeat has seen ends of epochs.") for text in (alone, both))


def test_a_job_refused_for_its_machine_is_named_with_the_observation():
    busy = {"foreign_cores": 1.9, "foreign_load_share": 0.9}
    noisy = [
        replace(record, verdict=Verdict.NOISY, probes=busy, environment={"logical_cpus": 2})
        for record in three("a")
    ]
    found = compared(noisy)
    assert found.finding(WholeJobs).details() == ()
    (sentence,) = found.finding(RefusedJobs).details()
    assert (
        sentence in found.sentences and "refused (noisy)" in sentence and "16.9 min to 17.3 min" in sentence
    )
    wrong = [replace(record, verdict=Verdict.WRONG) for record in three("a")]
    assert compared(wrong).finding(RefusedJobs).details() == ()
    assert compared(three("a")).finding(RefusedJobs).details() == ()


def test_a_job_that_ran_to_its_end_has_its_time_without_a_step():
    def finished(hardware, seconds):
        job = JobTime(0, seconds, seconds, seconds, measured=True)
        records = three(hardware, job=job)
        return [replace(r, verdict=Verdict.UNSUPPORTED, reasons=("no order",), wall=None) for r in records]

    found = compared(finished("a", 600.0), finished("b", 300.0))
    jobs = {job.hardware: job for job in found.finding(WholeJobs).jobs[0]}
    assert {name: job.prediction.seconds().value for name, job in jobs.items()} == {
        "a": pytest.approx(600.0),
        "b": pytest.approx(300.0),
    }
    assert not [summary for summary in found.summaries if summary.ok_repeats]
    predicted = [replace(r, verdict=Verdict.UNSUPPORTED, wall=None) for r in three("a")]
    assert compared(predicted).finding(WholeJobs).jobs == ()


@pytest.mark.parametrize(
    ("probes", "why"),
    [
        ({"foreign_load_share": 0.3}, "other programs used b"),
        ({"canary_drift": 0.3}, "the CPU's speed varied on b"),
    ],
)
def test_hours_and_usd_of_a_machine_that_was_not_quiet_are_provisional(probes, why):
    noisy = [replace(record, verdict=Verdict.NOISY, probes=probes) for record in three("b", 5.0)]
    assert compared(three("a"), noisy).finding(WholeJobs).details()[0].endswith(f"; provisional: {why}.")
    assert "provisional" not in compared(three("a"), three("b", 5.0)).finding(WholeJobs).details()[0]


def test_a_job_outside_of_its_own_interval_is_refused():
    bad = three("a", job=JobTime(10, 100.0, 110.0, 120.0))
    (summary,) = compared(bad).summaries
    assert not summary.ok_repeats and "states 100 s for a whole job of 10 steps" in summary.reasons[0]
    (summary,) = compared(three("a", shares={"loader": 1.5})).summaries
    assert not summary.ok_repeats and "150 % of its step is loader" in summary.reasons[0]


def coverage(shared, repeats, between=0.02, within=0.03, runs=300):
    """Return the share of intervals that hold the truth, with shared or independent errors of repeats."""
    chance, held = random.Random(f"{shared} {repeats}"), 0
    for _ in range(runs):
        common = chance.gauss(0, within)
        logs = [
            chance.gauss(0, between) + (common if shared else chance.gauss(0, within)) for _ in range(repeats)
        ]
        jobs = [
            JobTime(1, math.exp(x), math.exp(x - 1.96 * within), math.exp(x + 1.96 * within)) for x in logs
        ]
        seconds = JobPrediction.of(jobs).seconds()
        held += seconds.low < 1 < seconds.high
    return held / runs


@pytest.mark.parametrize("repeats", [2, 3, 5])
@pytest.mark.parametrize("shared", [False, True])
def test_the_interval_over_repeats_holds_the_truth_whether_their_errors_are_shared_or_not(shared, repeats):
    assert coverage(shared, repeats) > 0.92


def test_repeats_that_agree_by_chance_do_not_hide_their_own_intervals():
    alike = [JobTime(1, 100.0, 90.0, 111.1)] * 3
    seconds = JobPrediction.of(alike).seconds()
    assert seconds.low == pytest.approx(90, rel=0.01) and seconds.high == pytest.approx(111.1, rel=0.01)
    measured = [JobTime(1, value, value, value, measured=True) for value in (99.0, 100.0, 101.0)]
    error = statistics.stdev(math.log(job.seconds) for job in measured) / math.sqrt(3)
    assert math.log(JobPrediction.of(measured).seconds().high / 100) == pytest.approx(4.303 * error, rel=0.01)


def test_the_largest_avoidable_share_and_its_advice_are_said_of_each_machine():
    waiting = {"loader": 0.63, "copy": 0.1, "compute": 0.27}
    found = compared(
        three("slow", shares=waiting, **GPU),
        three("fast", shares={"loader": 0.02, "compute": 0.95, "other": 0.03}, **GPU),
        three("odd", shares={"loader": 0.02, "compute": 0.2, "other": 0.78}, **GPU),
        three("small", shares={"compute": 0.2, "other": 0.8}),
    )
    assert (
        "On slow at batch=32, 63.00 % (63.00–63.00) of a step waits for data: more loader workers, not a bigger GPU."
        in found.sentences
    )
    (fast,) = (s for s in found.observations if s.startswith("On fast at batch=32"))
    assert "95 % of a step is compute" in fast and "peak memory 4 GiB, 6 GiB left" in fast
    assert any("On odd at batch=32, 78 % of a step cannot be attributed" in s for s in found.observations)
    rows = {row[0]: row for row in found.finding(HeldBacks).table().rows}
    assert rows["slow"][4] == "loader" and rows["slow"][6:8] == (4 * 2**30, 6 * 2**30)
    assert rows["small"][4] == "other" and rows["small"][6] == 2 * 2**30  # of the host, which is the device
    assert dict(rows["slow"][2].seconds)["loader"] == pytest.approx(0.063, rel=0.01)


def test_a_share_whose_interval_reaches_down_to_nothing_is_no_part_of_the_answer():
    shares = ({"other": 0.3, "compute": 0.7}, {"other": 0.95, "compute": 0.05})
    repeats = [
        replace(r, script=replace(r.script, shares=s)) for r, s in zip(three("a"), shares, strict=False)
    ]
    found = compared(repeats)
    share = found.finding(HeldBacks).table().rows[0][5]
    assert (share.value, share.low, share.high) == (pytest.approx(0.625), 0.0, 1.0)
    assert not [s for s in found.sentences if "of a step" in s]
    assert any(s.startswith("On a at batch=32, 60 % (0–100) of a step is Python") for s in found.observations)
    single = compared(script_repeats("a", [0.1], shares={"loader": 0.5, "compute": 0.5}))
    assert not [s for s in single.sentences if "of a step" in s]
    assert any("~50 % of a step waits for data" in s for s in single.observations)


@pytest.mark.parametrize(
    ("share", "device", "words"),
    [
        ("launch", GPU, "waits for Python to launch the next operation: larger batches or torch.compile"),
        ("copy", GPU, "copies to the device: pinned memory"),
        ("communication", GPU, "exchanges gradients: accumulation or faster links"),
        ("loader", {}, "waits for data: data prepared beforehand"),
        ("other", {}, "is Python code between operators: larger batches or torch.compile"),
    ],
)
def test_every_avoidable_share_has_its_own_advice(share, device, words):
    answer = compared(three("a", shares={share: 0.5, "compute": 0.5}, **device)).sentences
    assert any(words in sentence for sentence in answer)


def test_a_training_not_shown_to_be_the_same_is_reported_and_counts():
    other = {"device": "cuda", "environment": A10G}
    found = compared(three("a"), three("b", losses=losses(data=3), **other), three("c", **other))
    assert found.finding(SameTraining).details() == ()  # b is wrong: c is of its kind, and agrees with a
    found = compared(three("a"), three("b", losses=losses(data=3), **other))
    (sentence,) = found.finding(SameTraining).details()
    assert sentence.startswith(
        "Not shown to be the same training as on a: train batch=32 on b (its kind of device"
    )
    assert sentence in found.sentences and found.pairings[0].compute is not None
    rows = found.finding(SameTraining).table().rows
    assert [(row[0], row[5].text) for row in rows] == [("a", "reference"), ("b", "not shown")]


def test_the_same_training_is_an_observation():
    found = compared(three("a"), three("b", losses=losses(summed=1)))
    assert any(
        s.startswith("The same training: train batch=32 on b as on a, 12 losses within")
        for s in found.observations
    )


@pytest.mark.parametrize(("calls", "words"), [(4.0, "its own loss is 4 times the number here"), (1.0, "")])
def test_losses_are_named_as_arguments_of_backward_with_their_factor(calls, words):
    lead = compared(three("a", accumulation=calls), three("b")).finding(SameTraining).table().lead
    assert "the first `backward()` of a step got" in lead
    assert words in lead and ("times the number here" in lead) == bool(words)


def test_the_finding_of_a_script_is_in_every_file_of_a_report():
    records, comparison = run()
    page = report_html(records, grid_of(records, comparison), RUN)
    assert 'id="script"' in page and 'href="#script"' in page and 'id="held-back"' in page
    assert all(page.count(f'data-kind="{kind}"') == 2 for kind in ("course", "steps", "room"))
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    lines = [row for rows in data["charts"]["course-1"]["datasets"].values() for row in rows]
    assert {row["hardware"] for row in lines if row["training"] == "wrong"} == {"local-cpu"}
    job = pd.read_csv(io.BytesIO(finding_files(comparison)["findings/job.csv"]))
    assert {"Machine", "Whole job (s)", "Whole job (s) low", "Cost (USD) high", "Standing"} <= set(job)
    facts = data["records"][0]["facts"]
    assert facts["script"] == "train.py --batch 32" and facts["a step"].endswith("; 400 seen, then stopped")
    kept = benchmark_json(records, grid_of(records, comparison), RUN)
    assert kept["rows"][0]["script"]["job"]["steps"] == 10_000 and kept["findings"]["training"]["rows"]
    text = full_text(records, grid_of(records, comparison))
    assert all(f"{kind.title}:" in text for kind in (WholeJobs, HeldBacks, SameTraining))
    assert {"bench-job", "bench-held-back", "bench-training"} <= set(stage_tables(comparison))


def test_a_script_without_sizes_has_a_page():
    records = three("a", case=Case.of("train", {}, "own"))
    page = report_html(records, grid_of(records, compare(records, [machine("a")], "a")), RUN)
    assert "train/own" in page and ">loader</span>" in page
