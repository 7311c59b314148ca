import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.findings.bills import ALONE, Bills, bills
from tasks.findings.compare import compare
from tasks.results.finding import LaneJob
from tests.tasks.examples.records import A10G, IMAGES, MATMUL, failed, machine, record, repeats
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict

TINY = Case.of("matmul", {"n": 64})


def test_without_jobs_a_bill_is_computed_from_the_records_and_labelled():
    records = [*repeats([1.0, 1.0], MATMUL), *repeats([2.0], IMAGES)]
    (bill,) = bills(records, (machine(usd_per_hour=36.0),))
    parts = dict(bill.parts_s)
    assert list(parts) == ["process start", "import", "build", "first call", "samples", "unattributed"]
    assert parts["import"] == pytest.approx(6.0) and parts["samples"] == pytest.approx(44.0)
    assert bill.billed_s == math.fsum(parts.values()) == pytest.approx(sum(r.wall_s for r in records))
    assert bill.usd == pytest.approx(bill.billed_s / 100)
    assert bill.compute_usd == pytest.approx(0.44, rel=0.01)
    assert bill.notes == (ALONE,)


def test_the_phases_of_a_script_have_words():
    phases_s = {"first_step": 3.0, "samples": 2.0, "wall": 20.0}
    (bill,) = bills([replace(record(1.0), phases_s=phases_s, wall_s=25.0, unattributed_s=0.0)], (machine(),))
    assert dict(bill.parts_s) == {"first step": 3.0, "samples": 2.0, "steps over the wall": 20.0}


def test_with_jobs_boot_and_idle_are_in_it():
    records = repeats([1.0, 1.0])
    measured_s = sum(r.wall_s for r in records)
    jobs = [LaneJob("cpu-box", 60.0, 20.0), LaneJob("cpu-box", 30.0, 25.0), LaneJob("other", 9.0, 9.0)]
    (bill,) = bills(records, (machine(),), jobs)
    parts = dict(bill.parts_s)
    assert parts["queue, boot and pull"] == 90.0 and parts["idle"] == pytest.approx(45.0 - measured_s)
    assert bill.billed_s == math.fsum(parts.values()) == pytest.approx(135.0)
    assert bill.notes == ()


def test_a_machine_that_goes_later_than_its_last_job_is_paid_for_until_then():
    jobs = [LaneJob("cpu-box", 60.0, 20.0), LaneJob("cpu-box", 30.0, 25.0)]
    (bill,) = bills(repeats([1.0, 1.0]), (machine(idle_s=600.0),), jobs)
    assert dict(bill.parts_s)["until the machine went"] == 600.0 and bill.billed_s == pytest.approx(735.0)
    (alone,) = bills(repeats([1.0, 1.0]), (machine(idle_s=600.0),))
    assert "until the machine went" not in dict(alone.parts_s) and alone.notes == (ALONE,)


def test_stages_that_a_pool_says_are_parts_of_the_bill():
    staged = LaneJob("cpu-box", 60.0, 20.0, (("queue and boot", 40.0), ("image pull", 20.0)))
    (bill,) = bills(repeats([1.0, 1.0]), (machine(),), [staged, staged, LaneJob("cpu-box", 30.0, 25.0)])
    parts = dict(bill.parts_s)
    assert list(parts)[:3] == ["queue and boot", "image pull", "queue, boot and pull"]
    assert [parts[name] for name in list(parts)[:3]] == [80.0, 40.0, 30.0]
    assert bill.billed_s == pytest.approx(215.0)


def test_jobs_that_are_not_all_there_are_left_out():
    (bill,) = bills(repeats([1.0, 1.0]), (machine(),), [LaneJob("cpu-box", 60.0, 20.0)])
    assert bill.notes == (ALONE,) and "idle" not in dict(bill.parts_s)


def test_failed_repeats_are_billed_and_skipped_repeats_are_not():
    late = record(1.0, verdict=Verdict.TIMEOUT, wall=None, phases_s={}, wall_s=600.0, unattributed_s=600.0)
    (bill,) = bills([late, failed(Verdict.SKIPPED, "too large", hardware="gpu-box")], (machine(),))
    assert (bill.hardware, bill.parts_s, bill.compute_usd) == ("cpu-box", (("unattributed", 600.0),), 0.0)


def test_a_machine_without_a_price_has_seconds_and_no_usd():
    (bill,) = bills(repeats([1.0]), (machine(usd_per_hour=None),))
    assert bill.usd is bill.compute_usd is None and bill.billed_s > 0


def test_accelerators_that_nothing_used_are_named():
    on_gpu = {"device": "cuda", "environment": A10G}
    four = {"device": "cuda", "environment": A10G | {"gpus": A10G["gpus"] * 4}}
    records = [*repeats([1.0] * 3, MATMUL, "gpu", **on_gpu), *repeats([1.0], IMAGES, "gpu", **four)]
    records.append(failed(Verdict.CRASHED, "nobody knows what it used", TINY, "gpu"))
    (bill,) = bills(records, (machine("gpu", devices=4),))
    # three of four equally long repeats left three of four unused
    assert bill.notes[1] == (
        "of 4 accelerators 1 case used 1, 1 case used 4: 56.2 % of the paid accelerator time went unused"
    )
    (bill,) = bills(records, (machine("gpu", devices=1),))
    assert bill.notes == (ALONE,)


@given(
    st.lists(st.tuples(st.floats(1e-6, 1e4), st.floats(0, 60)), min_size=1, max_size=8),
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e5)), max_size=4),
)
def test_the_parts_of_a_bill_add_up(steps, jobs):
    records = []
    for place, (seconds, rest) in enumerate(steps):
        whole = record(seconds, repeat=place)
        records.append(record(seconds, repeat=place, wall_s=whole.wall_s + rest, unattributed_s=0.01 + rest))
    lanes = [LaneJob("cpu-box", *job) for job in jobs]
    (bill,) = bills(records, (machine(),), lanes)
    assert bill.billed_s == math.fsum(seconds for _, seconds in bill.parts_s)
    assert all(seconds >= 0 for _, seconds in bill.parts_s)
    wanted = sum(w + r for w, r in jobs) if bill.notes == () else sum(r.wall_s for r in records)
    assert bill.billed_s == pytest.approx(wanted)


def test_a_comparison_has_the_bills_in_the_order_of_its_machines():
    records = [*repeats([1.0, 1.0], hardware="b"), *repeats([1.0, 1.0], hardware="a")]
    found = (
        compare(records, (machine("a"), machine("b")), "a", jobs=[LaneJob("a", 1.0, 100.0)])
        .finding(Bills)
        .bills
    )
    assert [(bill.hardware, bill.notes) for bill in found] == [("a", ()), ("b", (ALONE,))]


def test_steps_are_never_paid_for_longer_than_their_process():
    (made,) = repeats([1.0])
    samples = (1e308, *made.wall.samples_s[1:])
    (bill,) = bills([replace(made, wall=replace(made.wall, samples_s=samples))], (machine(),))
    assert bill.compute_usd <= bill.usd


def test_entries_that_took_turns_share_the_bill_of_their_job_by_the_time_of_their_records():
    records = [*repeats([1.0] * 2), *repeats([1.0] * 6, hardware="other")]
    wall_s = records[0].wall_s
    job = LaneJob("cpu-box", 40.0, 12 * wall_s, (("boot", 40.0),), turns_with=("other",))
    ours, theirs = bills(records, (machine(idle_s=80.0), machine("other", idle_s=80.0)), [job])
    assert (ours.billed_s, theirs.billed_s) == (
        pytest.approx(10.0 + 3 * wall_s + 20.0),
        pytest.approx(30.0 + 9 * wall_s + 60.0),
    )
    assert dict(ours.parts_s)["boot"] == pytest.approx(10.0)
    assert dict(theirs.parts_s)["idle"] == pytest.approx(3 * wall_s)
    assert ALONE not in (*ours.notes, *theirs.notes)
