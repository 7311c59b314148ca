from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.findings.answer import MOST_LINES, MOST_WORDS
from tasks.findings.compare import compare
from tasks.results.values import RatioVerdict
from tests.tasks.examples import seed_table
from tests.tasks.examples.records import (
    A10G,
    ENVIRONMENT,
    IMAGES,
    MATMUL,
    failed,
    machine,
    record,
    repeats,
    timing,
)
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade, Record, Transfer, Verdict, Work

ONE, TWO = machine("local-cpu-1", 0.05, box="local"), machine("local-cpu", 0.10, box="local")
BLUR = Case.of("gaussian_blur", {"pixels": 2048})


def two_threads_against_one():
    both = (("local-cpu-1", 1, (1.0, 1.01, 0.99)), ("local-cpu", 2, (0.55, 0.551, 0.549)))
    return [
        r
        for name, threads, times in both
        for size, case in enumerate((MATMUL, IMAGES, BLUR), 1)
        for r in repeats([t * size for t in times], case, name, threads=threads)
    ]


def test_a_comparison_has_summaries_pairings_totals_and_an_answer():
    found = compare(two_threads_against_one(), (ONE, TWO), "local-cpu-1")
    assert (found.baseline, found.machines, found.unpaired) == ("local-cpu-1", (ONE, TWO), ())
    assert [s.verdict for s in found.summaries] == [Verdict.OK] * 6
    assert [p.hardware for p in found.pairings] == ["local-cpu"] * 3
    pairing = found.pairings[0]
    assert (pairing.case, pairing.baseline, pairing.refused) == (MATMUL, "local-cpu-1", "")
    assert pairing.compute.estimate.value == pytest.approx(1 / 0.55, rel=1e-3)
    assert pairing.compute.outcome is pairing.end_to_end.outcome is RatioVerdict.FASTER
    assert pairing.efficiency.value == pytest.approx(0.909, abs=1e-3)
    assert (pairing.efficiency_band, pairing.scaling) == ("very good", "strong")
    assert pairing.serial_fraction == pytest.approx(0.1, abs=1e-3)
    assert pairing.cost.estimate.value == pytest.approx(0.909, abs=1e-3)
    assert pairing.cost.outcome is RatioVerdict.SLOWER
    assert found.totals[1].speedup.value == pytest.approx(1 / 0.55, rel=1e-3)
    fastest, cheapest, decided = found.answer
    assert "Fastest: local-cpu, 1.818× (1.775–1.862)" in fastest and "over 3 cases" in fastest
    assert "Cheapest: local-cpu-1, 1.100× (1.074–1.127)" in cheapest
    assert decided.startswith("Decided: 3 of 3 cases")
    (detail,) = found.details
    assert "faster in 3 of 3" in detail and "corrected for 3 comparisons" in detail
    kinds = [caveat.kind for caveat in found.caveats]
    assert kinds == ["one session of each machine", "states of processes", "assumed prices"]


def test_an_unknown_baseline_is_refused_with_a_sentence():
    with pytest.raises(
        ValueError, match="the baseline 'x' is not one of the machines: local-cpu-1, local-cpu"
    ):
        compare([], (ONE, TWO), "x")


def test_a_comparison_without_records_has_no_results():
    found = compare([], (ONE,), "local-cpu-1")
    assert found.summaries == found.pairings == found.totals == ()
    assert found.answer[0].startswith("No results")


def test_cells_without_a_counterpart_name_the_run_that_they_need():
    records = [*repeats([1.0], MATMUL, "local-cpu"), *repeats([1.0], IMAGES, "local-cpu-1")]
    found = compare(records, (ONE, TWO), "local-cpu-1")
    assert found.pairings[0].refused == "the baseline has not measured this case"
    assert found.unpaired == (
        "local-cpu/matmul/n=5000/fp32 has no counterpart: measure matmul n=5000 fp32 on local-cpu-1 too",
    )


def test_precisions_are_never_mixed():
    tf32 = Case.of("matmul", {"n": 5000}, "tf32")
    records = [*repeats([1.0], MATMUL, "local-cpu-1"), *repeats([1.0], tf32, "local-cpu")]
    (pairing,) = compare(records, (ONE, TWO), "local-cpu-1").pairings
    assert (pairing.compute, bool(pairing.refused)) == (None, True)


def test_an_impossible_record_is_shown_and_enters_no_ratio():
    fast = machine("gpu", 2.0, devices=1, peak_flops=(("fp32", 31.2e12),))
    records = [*repeats([1.0] * 3, MATMUL, "local-cpu-1"), *repeats([1e-6] * 3, MATMUL, "gpu", device="cuda")]
    found = compare(records, (ONE, fast), "local-cpu-1")
    assert [s.verdict for s in found.summaries] == [Verdict.OK, Verdict.IMPOSSIBLE]
    (pairing,) = found.pairings
    assert pairing.compute is pairing.cost is pairing.efficiency is None
    assert pairing.refused.startswith("gpu is impossible: 2.5e+05 TFLOP/s is")


def test_the_stack_is_a_named_confound():
    other = A10G | {"torch": "2.12.1+cu126"}
    records = [
        *repeats([1.0] * 3, MATMUL, "a", device="cuda", environment=A10G),
        *repeats([0.5] * 3, MATMUL, "b", device="cuda", environment=other),
    ]
    found = compare(records, (machine("a"), machine("b")), "a")
    assert found.pairings[0].confounds == ("torch: 2.12.1 against 2.13.0",)
    (caveat,) = (caveat for caveat in found.caveats if caveat.kind == "confounders")
    assert "torch: 2.12.1 against 2.13.0" in caveat.reason


def test_the_published_table_decides_nothing():
    """With one sample a cell no ratio has an interval."""
    found = compare(seed_table.records(), (seed_table.CPU, seed_table.GPU), "r5.4xlarge")
    assert [p.compute and p.compute.outcome for p in found.pairings].count(RatioVerdict.UNDECIDED) == 7
    assert sum("one record is a copy" in p.refused for p in found.pairings) == 2
    assert "undecided between g5.8xlarge and r5.4xlarge, over 7 of 9 cases" in found.answer[0]
    assert any("one repeat has no interval" in sentence for sentence in found.details)
    (refused,) = (caveat.reason for caveat in found.caveats if caveat.kind == "refused results")
    assert refused.startswith("4 of 18 cells are refused: r5.4xlarge/image_pipeline/pixels=2048,batch=1")


STRANGE = st.builds(
    Record,
    run=st.just("r"),
    hardware=st.sampled_from(["local-cpu-1", "local-cpu", "unlisted"]),
    case=st.sampled_from([MATMUL, IMAGES, BLUR]),
    repeat=st.integers(0, 2),
    verdict=st.sampled_from([Verdict.OK, Verdict.OK, Verdict.UNSTEADY, Verdict.NOISY, Verdict.CRASHED]),
    reasons=st.sampled_from([(), ("because",)]),
    device=st.sampled_from(["cpu", "cuda"]),
    threads=st.sampled_from([None, 0, 1, 8]),
    wall_s=st.sampled_from([0.0, 1.0, float("nan")]),
    phases_s=st.sampled_from([{}, {"import": 1.0}]),
    wall=st.sampled_from(
        [
            *(None, replace(timing(1.0), samples_s=()), replace(timing(1.0), median_s=float("nan"))),
            *(timing(t) for t in (-1.0, 0.0, 1e-9, 0.5, 0.6, 1.0, 7e4, float("inf"), float("nan"))),
        ]
    ),
    work=st.sampled_from(
        [None, Work(0, "", 0, 0), Work(1, "x", None, None), Work(-1, "x", -1, -1), Work(8, "x", 1e12, 1e9)]
    ),
    transfer=st.sampled_from([None, Transfer(), Transfer(h2d_pageable_s=-9)]),
    environment=st.sampled_from(
        [{}, ENVIRONMENT, A10G, {"gpus": None, "torch": 2, "memory_total_bytes": "x"}]
    ),
)


@settings(deadline=None, max_examples=300)
@given(records=st.lists(STRANGE, max_size=12), price=st.sampled_from([None, 0.0, 1.0]))
def test_odd_data_never_raises(records, price):
    slow = machine("local-cpu", price, peak_flops=(("fp32", 1e12),), peak_bytes_per_s=1e9)
    found = compare(records, (ONE, slow), "local-cpu-1")
    for summary in found.summaries:
        counted = summary.grade is not Grade.REFUSED
        assert counted == (summary.ok_repeats > 0) == (summary.compute_s is not None)
        assert (summary.grade is Grade.SOUND) == (counted and summary.verdict is Verdict.OK)
    for pairing in found.pairings:
        assert bool(pairing.refused) == (pairing.compute is None)
        assert pairing.efficiency is None or pairing.efficiency_band
    assert all(sentence.endswith(".") for sentence in found.sentences)
    assert len(found.answer) <= MOST_LINES
    assert all(len(line.split()) <= MOST_WORDS for line in (*found.answer, found.caveat_line)), found.answer


@settings(deadline=None, max_examples=50)
@given(scale=st.floats(1e-3, 1e3), repeat=st.integers(2, 4))
def test_a_slower_clock_changes_times_and_no_ratio(scale, repeat):
    def run(factor):
        records = [
            record(factor * seconds * (1 + 0.01 * i), MATMUL, name, i)
            for name, seconds in (("local-cpu-1", 1.0), ("local-cpu", 0.6))
            for i in range(repeat)
        ]
        return compare(records, (ONE, TWO), "local-cpu-1")

    one, other = run(1.0), run(scale)
    assert other.totals[0].seconds == pytest.approx(scale * one.totals[0].seconds)
    assert other.pairings[0].compute.estimate.value == pytest.approx(one.pairings[0].compute.estimate.value)
    assert other.answer[0] == one.answer[0]


def test_failures_are_counted_in_the_answer():
    records = [
        *two_threads_against_one(),
        failed(
            Verdict.OUT_OF_MEMORY, "tried to allocate 6.4 GB", Case.of("matmul", {"n": 15_000}), "local-cpu"
        ),
    ]
    found = compare(records, (ONE, TWO), "local-cpu-1")
    assert (
        "1 of 7 cells is refused: local-cpu/matmul/n=15000/fp32 (out_of_memory: tried to allocate 6.4 GB)."
        in found.sentences
    )
