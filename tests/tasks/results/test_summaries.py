from dataclasses import replace

import pytest

from tasks.plausibility.physics import gate
from tasks.results.repeats import group, latest
from tasks.results.speedup import speedup
from tasks.results.summaries import cold_s, over_repeats, summarise
from tasks.results.values import Estimate
from tests.tasks.examples.records import IMAGES, MATMUL, failed, machine, record, repeats, timing, work
from workloads.harness.records.intervals import log_mean_interval
from workloads.harness.records.record import Transfer, Verdict


def summarised(records, *machines):
    return summarise(group(records, machines, gate(records, machines)), machines)


def test_one_summary_per_cell_machines_first_then_cases_as_given():
    records = [*repeats([1.0], IMAGES, "a"), *repeats([1.0], MATMUL, "b"), *repeats([1.0], IMAGES, "b")]
    records += repeats([1.0], IMAGES, "unlisted")
    cells = [s.cell.id for s in summarised(records, machine("b"), machine("a"))]
    assert cells == [f"b/{IMAGES.id}", f"b/{MATMUL.id}", f"a/{IMAGES.id}", f"unlisted/{IMAGES.id}"]


def test_estimates_are_over_the_repeats_medians():
    times = [0.99, 1.0, 1.02]
    (summary,) = summarised(repeats(times, IMAGES), machine(usd_per_hour=3.6))
    interval = log_mean_interval(times)
    assert summary.compute_s == Estimate.of(interval)
    assert summary.end_to_end_s == summary.compute_s
    assert summary.units_per_s == pytest.approx(2 / interval.value)
    assert summary.flops_per_s == pytest.approx(work(IMAGES).flops / interval.value)
    assert summary.usd_per_million_units.value == pytest.approx(1e6 * interval.value / 2 * 0.001)
    assert summary.usd_per_million_units.low < summary.usd_per_million_units.value
    assert (summary.verdict, summary.repeats, summary.ok_repeats) == (Verdict.OK, 3, 3)
    assert (summary.threads, summary.device, summary.unit, summary.units) == (8, "cpu", "images", 2)


def test_one_repeat_has_no_bounds():
    (summary,) = summarised(repeats([1.0]), machine())
    assert summary.compute_s == Estimate(1.0)
    assert over_repeats([]) is None


def test_transfers_make_the_end_to_end_time():
    moved = Transfer(h2d_pageable_s=0.2, d2h_pageable_s=0.1, h2d_pinned_s=0.1)
    (summary,) = summarised(repeats([1.0], transfer=moved), machine())
    assert summary.end_to_end_s.value == pytest.approx(1.3)
    (without,) = summarised(repeats([1.0], transfer=None), machine())
    assert without.end_to_end_s is None


def test_the_cold_start_is_a_sum_of_phases_and_a_median_of_repeats():
    assert cold_s(record(1.0)) == pytest.approx(0.1 + 2.0 + 0.0 + 0.3 + 2.0)
    assert cold_s(record(1.0, phases_s={"import": 2.0})) is None
    (summary,) = summarised(repeats([1.0, 1.1, 5.0]), machine())
    assert summary.cold_s == pytest.approx(2.4 + 2.2)


def test_a_forked_repeat_has_the_cold_start_of_a_fresh_repeat():
    own = record(1.0).phases_s | {"process_start": 0.01, "import": 0.0, "build": 0.1}
    forked = record(1.0, phases_s=own, inherited_s={"process_start": 0.09, "import": 2.0, "build": 0.2})
    assert cold_s(forked) == pytest.approx(cold_s(record(1.0)))


def test_only_ok_repeats_enter_and_every_reason_is_kept():
    bad = failed(Verdict.NOISY, "the hypervisor took 4 %", repeat=3)
    again = failed(Verdict.NOISY, "the hypervisor took 4 %", repeat=4)
    (summary,) = summarised([bad, again, *repeats([1.0, 1.0])], machine())
    assert (summary.verdict, summary.repeats, summary.ok_repeats) == (Verdict.OK, 4, 2)
    assert summary.reasons == ("the hypervisor took 4 %",)


def test_a_cell_without_an_ok_repeat_has_the_first_ones_verdict_and_no_number():
    records = [failed(Verdict.OUT_OF_MEMORY, "6.4 GB"), failed(Verdict.CRASHED, "signal 9", repeat=1)]
    (summary,) = summarised(records, machine())
    assert (summary.verdict, summary.reasons) == (Verdict.OUT_OF_MEMORY, ("6.4 GB", "signal 9"))
    assert summary.compute_s is summary.units_per_s is summary.usd_per_million_units is summary.cold_s is None


def test_an_impossible_cell_is_summarised_as_impossible():
    (summary,) = summarised(repeats([1e-6] * 3), machine(peak_flops=(("fp32", 1e12),)))
    assert (summary.verdict, summary.ok_repeats, summary.compute_s) == (Verdict.IMPOSSIBLE, 0, None)
    assert summary.reasons == ("2.5e+05 TFLOP/s is 2.5e+05 times the peak of cpu-box in fp32, 1 TFLOP/s",)


def test_without_a_price_or_work_there_is_no_cost():
    (summary,) = summarised(repeats([1.0]), machine(usd_per_hour=None))
    assert summary.usd_per_million_units is None
    (summary,) = summarised(repeats([1.0], work=None), machine())
    assert summary.usd_per_million_units is summary.units_per_s is None


def test_a_record_that_was_read_twice_counts_once():
    assert latest([record(1.0), record(2.0), record(1.0, repeat=1)]) == (record(2.0), record(1.0, repeat=1))


def test_throughput_and_cost_are_total_work_over_total_time():
    """A median leaves out slow samples that users wait and pay for."""
    slow = replace(timing(1.0), samples_s=(1.0, 1.0, 1.0, 2.0, 2.0), mean_s=None)
    (summary,) = summarised(repeats([1.0, 1.0], IMAGES, wall=slow), machine(usd_per_hour=3.6))
    assert (summary.median_s, summary.compute_s.value) == (pytest.approx(1.0), pytest.approx(1.4))
    assert summary.units_per_s == pytest.approx(2 / 1.4)
    assert summary.flops_per_s == pytest.approx(work(IMAGES).flops / 1.4)
    assert summary.usd_per_million_units.value == pytest.approx(1e6 * 1.4 / 2 * 0.001)
    assert summary.end_to_end_s.value == pytest.approx(1.4)


def test_a_speedup_is_of_total_times_for_any_blocks():
    """A median over blocks of four hides a slow step in four."""
    single = replace(timing(1.0), samples_s=(1.0, 1.0, 1.0, 2.0) * 3, mean_s=None)
    blocks = replace(timing(1.0), samples_s=(1.25,) * 3, block=4, median_s=1.25, mean_s=None)
    one, other = group(
        [*repeats([1.0] * 2, MATMUL, "a", wall=single), *repeats([1.0] * 2, MATMUL, "b", wall=blocks)], (), {}
    )
    assert speedup(one.compute_s, other.compute_s).estimate.value == pytest.approx(1.0)
    assert speedup(one.median_s, other.median_s).estimate.value == pytest.approx(0.8)
