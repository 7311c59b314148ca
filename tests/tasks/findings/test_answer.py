import pytest

from tasks.findings.answer import answer, case_by_case, cheapest, fastest, not_ok, price_notes
from tasks.findings.compare import compare
from tasks.findings.totals import CommonCases
from tasks.results.model import Machine
from tasks.results.repeats import group
from tasks.results.values import RatioVerdict
from tests.tasks.examples.records import IMAGES, MATMUL, failed, machine, repeats
from workloads.harness.records.record import Verdict

STEADY = (0.999, 1.0, 1.001)


def suite(**times):
    """Machines by name, each with three repeats of two cases around its time."""
    records = [
        r
        for name, seconds in times.items()
        for case in (MATMUL, IMAGES)
        for r in repeats([seconds * t for t in STEADY], case, name)
    ]
    return CommonCases.of(group(records, (), {}))


def test_the_winner_is_told_against_the_baseline_and_the_next():
    assert fastest(suite(base=10.0, near=1.2, best=1.0), "base") == [
        "Fastest for this suite: best, 1.200× (1.198–1.202) as fast as near and "
        "10.00× (9.99–10.01) as fast as base, over 2 cases."
    ]


def test_a_winning_baseline_is_told_against_the_next():
    (sentence,) = fastest(suite(base=1.0, near=1.2, far=2.0), "base")
    assert sentence.startswith("Fastest for this suite: base, 1.200×")
    assert "far" not in sentence


def test_what_is_not_told_apart_is_undecided():
    (sentence,) = fastest(suite(base=10.0, one=1.0, two=1.0001, three=1.0002), "base")
    assert sentence.startswith(
        "Fastest for this suite: undecided between one, two and three over 2 cases: the"
    )
    assert sentence.endswith("spans 1: equal within 0.14 %.")


def test_the_cheapest_may_be_the_slowest():
    times = suite(base=1.0, fast=0.5)
    machines = (machine("base", 1.0), machine("fast", 4.0))
    assert cheapest(times, machines, "base") == [
        "Cheapest for this suite: base, 2.000× (1.997–2.003) as cheap as fast, over 2 cases."
    ]


def test_machines_without_a_price_are_not_ranked():
    times = suite(base=1.0, fast=0.5, other=2.0)
    (ranked, left_out) = cheapest(times, (machine("base", 1.0), machine("fast", 1.0)), "base")
    assert ranked.startswith("Cheapest for this suite: fast")
    assert left_out == "Without a price, so not ranked by cost: other."
    assert cheapest(times, (), "base") == ["Without a price, so not ranked by cost: base, fast and other."]


def test_there_must_be_two_to_compare():
    assert fastest(suite(base=1.0), "base") == [
        "Only base has ok cells: measure a second machine to compare it with."
    ]
    assert cheapest(suite(base=1.0), (machine("base"),), "base") == []
    assert fastest(suite(), "base") == ["The baseline, base, has no ok cell, so there is no speedup."]


def test_there_must_be_a_case_in_common():
    apart = CommonCases.of(group([*repeats([1.0], MATMUL, "a"), *repeats([1.0], IMAGES, "b")], (), {}))
    assert fastest(apart, "a") == [
        "No case is ok on every machine, so there is no total: see the cases one by one."
    ]
    assert cheapest(apart, (machine("a"), machine("b")), "a") == []


def test_cases_are_tallied_with_what_would_decide_them():
    records = [*repeats([2.0], MATMUL, "a"), *repeats([1.0], MATMUL, "b")]
    found = compare(records, (machine("a"), machine("b")), "a")
    assert found.pairings[0].compute.outcome is RatioVerdict.UNDECIDED
    assert case_by_case(found.pairings) == [
        "b against a, case by case: undecided in 1 of 1 (one repeat has no interval: run with repeats=3 or more)."
    ]


def test_a_long_list_of_failures_is_cut():
    records = [failed(Verdict.CAPACITY, "", MATMUL, f"box-{i}") for i in range(7)]
    found = compare(records, (machine("box-0"),), "box-0")
    (sentence,) = not_ok(found.summaries)
    assert sentence.startswith("7 of 7 cells are not ok: box-0/matmul/n=5000/fp32 (capacity)")
    assert sentence.endswith("box-4/matmul/n=5000/fp32 (capacity); and 2 more.")


@pytest.mark.parametrize(
    ("notes", "sentences"),
    [
        (("on-demand",), []),
        (("Stated assumption", "stated assumption"), ["Prices are stated assumptions."]),
        (("on-demand", "assumed"), ["Prices that are stated assumptions: m1."]),
    ],
)
def test_assumed_prices_are_said(notes, sentences):
    assert price_notes([Machine(f"m{i}", 1.0, note) for i, note in enumerate(notes)]) == sentences


def test_unpriced_machines_have_no_price_to_note():
    assert price_notes([Machine("m", None, "assumed")]) == []


def test_an_empty_run_has_an_answer():
    assert answer(CommonCases.of(()), (), "base", (), ()) == (
        "The baseline, base, has no ok cell, so there is no speedup.",
    )
