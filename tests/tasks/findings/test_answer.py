from dataclasses import replace

import pytest

from tasks.findings.answer import answer, case_by_case, cheapest, fastest, price_notes, refused, wide
from tasks.findings.compare import compare
from tasks.findings.offers import Offers
from tasks.findings.ranking import Rankings
from tasks.findings.totals import CommonCases
from tasks.report.artifacts import speedup_rows
from tasks.report.html.matrix import wide_text
from tasks.results.model import Machine, Pairing
from tasks.results.repeats import group
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import totals_text
from tests.tasks.examples.records import IMAGES, MATMUL, failed, machine, record, repeats, timing
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict

NOTHING = "No cell of the baseline, base, has a number that counts, so there is no speedup."
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
        "Only base has numbers that count: measure a second machine to compare it with."
    ]
    assert cheapest(suite(base=1.0), (machine("base"),), "base") == []
    assert fastest(suite(), "base") == [NOTHING]


def test_there_must_be_a_case_in_common():
    apart = CommonCases.of(group([*repeats([1.0], MATMUL, "a"), *repeats([1.0], IMAGES, "b")], (), {}))
    assert fastest(apart, "a") == [
        "No case counts on every machine, so there is no total: see the cases one by one."
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
    (sentence,) = refused(found.summaries)
    assert sentence.startswith("7 of 7 cells are refused: box-0/matmul/n=5000/fp32 (capacity)")
    assert sentence.endswith("box-4/matmul/n=5000/fp32 (capacity); and 2 more.")


def test_what_helps_a_noisy_cell_is_said():
    records = [failed(Verdict.NOISY, "", MATMUL, "a"), failed(Verdict.CAPACITY, "", MATMUL, "b")]
    _, advice = refused(compare(records, (machine("a"), machine("b")), "a").summaries)
    assert advice == "What is noisy ran beside other work: measure it again where nothing else runs."


def test_no_other_work_is_blamed_for_a_cpu_whose_own_speed_drifted():
    drifting = replace(timing(1.0), steady=False, samples_s=(1.0, 1.5))
    restless = record(1.0, MATMUL, "a", verdict=Verdict.NOISY, probes={"canary_drift": 0.3}, wall=drifting)
    assert len(refused(compare([restless], (machine("a"),), "a").summaries)) == 1


def test_every_place_gives_the_reason_of_the_verdict_that_it_names():
    records = [record(1.0, MATMUL, "a", 0, **WIDE), record(1.1, MATMUL, "a", 1, **BUSY)]
    found = compare(records, (machine("a"),), "a")
    (summary,) = found.summaries
    assert "(noisy: others)" in wide(found.summaries)[0]
    assert wide_text(summary) == "≈ wide, noisy; others"
    assert [row["grade"] for row in speedup_rows(found)] == ["wide: others"]


def pairing(name, case, chance):
    """A machine against base: a verdict that chance alone gives so seldom."""
    low, outcome = (1.01, RatioVerdict.FASTER) if chance <= 0.05 else (0.9, RatioVerdict.UNDECIDED)
    ratio = Ratio(Estimate(1.1, low, 1.2), outcome, "" if low > 1 else "spans 1", chance)
    return Pairing(Case.of("matmul", {"n": case}), name, "base", ratio)


def test_verdicts_hold_together_with_those_of_every_machine():
    one = [pairing("b", 1, 0.02), pairing("b", 2, 0.5)]
    assert case_by_case(one)[0].endswith("; this verdict holds among all 2.")
    others = [pairing(name, case, 0.5) for name in "cde" for case in (1, 2)]
    first, *rest = case_by_case([*one, *others])
    assert first.endswith("; this verdict does not hold among all 8.")
    assert not any("hold" in sentence for sentence in rest)
    sure = [pairing("f", case, 1e-6) for case in (1, 2)]
    *_, last = case_by_case([*one, *sure])
    assert last.endswith("faster in 2 of 2; all of these 2 verdicts hold together among all 4.")


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
    assert answer(CommonCases.of(()), (), "base", (), ()) == (NOTHING,)


WIDE = {"verdict": Verdict.IMPRECISE, "reasons": ("90 samples did not make the median precise",)}
BUSY = {"verdict": Verdict.NOISY, "reasons": ("others",), "probes": {"foreign_load_share": 0.5}}


def two_machines(**changes):
    """Two machines of which the second is twice as fast, in two cases; one more case has a single repeat."""
    single = Case.of("matmul", {"n": 64})
    records = [
        r
        for name, seconds in (("a", 2.0), ("b", 1.0))
        for case in (MATMUL, IMAGES)
        for r in repeats([seconds * t for t in STEADY], case, name, **changes)
    ]
    records += [*repeats([2.0, 2.01], single, "a"), *repeats([1.0], single, "b")]
    return compare(records, (machine("a"), machine("b")), "a")


def test_a_headline_says_of_how_many_cases_it_is_and_names_what_it_leaves_out():
    found = two_machines()
    assert found.answer[0].endswith("as fast as a, over 2 of 3 cases.")
    left_out = (
        "Measured for one repeat alone, or while others used the machine, so in no total: b/matmul/n=64/fp32."
    )
    assert left_out in found.answer
    assert {(total.cases, total.measured) for total in found.totals} == {(2, 3)}


def test_wide_cells_are_in_the_headline_and_told():
    found = two_machines(**WIDE)
    assert found.answer[0].startswith("Fastest for this suite: b, 2.000×")
    assert found.answer[0].endswith("over 2 of 3 cases; 4 of its 4 cells are wide.")
    (sentence,) = wide(found.summaries)
    assert sentence in found.answer and sentence.startswith("4 of 6 cells are wide, which the intervals")
    assert refused(found.summaries) == []


def test_an_answer_from_a_busy_machine_is_provisional():
    found = two_machines(**BUSY)
    load = "others used the machine during 4 of its 4 cells, and an idle one may give another answer."
    provisional = f"; provisional: {load}"
    assert found.answer[0].endswith(f"over 2 of 3 cases{provisional}")


def test_an_answer_from_a_cpu_whose_speed_came_and_went_is_of_all_repeats_and_provisional():
    found = two_machines(verdict=Verdict.NOISY, reasons=("faster",), probes={"canary_drift": -0.3})
    provisional = "; provisional: the CPU's own speed came and went during 4 of its 4 cells."
    assert found.answer[0].endswith(f"over 2 of 3 cases{provisional}")


def test_a_baseline_of_single_repeats_is_told():
    records = [
        *repeats([2.0], MATMUL, "a"),
        *repeats([1.0, 1.1], MATMUL, "b"),
        *repeats([3.0, 3.1], MATMUL, "c"),
    ]
    found = compare(records, (machine("a"), machine("b"), machine("c")), "a")
    assert found.answer[0] == "No cell of the baseline, a, has an interval, so there is no speedup."
    assert "In no total, without a second repeat of any case: a." in found.answer


def test_a_baseline_beside_a_load_is_ranked_with_the_others_and_the_answer_is_provisional():
    times = {"mine": (1.0, BUSY), "one": (2.0, {}), "two": (4.0, {})}
    records = [
        r
        for name, (seconds, changes) in times.items()
        for case in (MATMUL, IMAGES)
        for r in repeats([seconds * t for t in STEADY], case, name, **changes)
    ]
    found = compare(records, [machine(name) for name in times], "mine").answer
    for sentence, what in zip(found, ("Fastest", "Cheapest"), strict=False):
        assert sentence.startswith(f"{what} for this suite: mine, 2.000×")
        assert "over 2 cases; provisional: others used the machine during 2 of its 6 cells" in sentence
    assert not any("In no total" in sentence or "no speedup" in sentence for sentence in found)


def test_what_rests_on_a_busy_machine_is_marked_wherever_it_is_told():
    found = two_machines(**BUSY)
    (tally,) = case_by_case(found.pairings)
    assert "all of these 2 verdicts hold together; provisional in 2 of 3, where a machine was busy" in tally
    why = "others used the machine during 4 of its 4 cells, and an idle one may give another answer"
    assert totals_text(found.totals).startswith(f"The total is provisional: {why}. Intervals of totals")
    assert found.finding(Offers).table().notes == (f"The total is provisional: {why}.",)
    rankings = found.finding(Rankings).rankings
    assert [r.provisional for r in rankings if r.case is None] == [why, why]
    quiet = two_machines()
    assert "provisional" not in case_by_case(quiet.pairings)[0] + totals_text(quiet.totals)
    assert quiet.finding(Offers).table().notes == ()


def test_the_order_of_machines_is_provisional_where_one_was_busy():
    records = [
        r
        for name, seconds, changes in (("a", 1.0, {}), ("b", 2.0, {}), ("c", 3.0, BUSY))
        for r in repeats([seconds * t for t in STEADY], MATMUL, name, **changes)
    ]
    found = compare(records, [machine(name, None) for name in "abc"], "a")
    (order,) = (sentence for sentence in found.observations if sentence.startswith("Over the suite, by time"))
    assert "1. a, 2. b, 3. c" in order
    assert "; provisional: others used the machine during 1 of its 3 cells" in order


def test_no_interval_is_said_to_carry_what_others_did_to_a_machine():
    records = [*repeats([1.0, 1.1], MATMUL, "a", **WIDE), *repeats([1.0, 1.1], IMAGES, "a", **BUSY)]
    carried, shown = wide(compare(records, (machine("a"),), "a").summaries)
    assert carried.startswith(
        f"1 of 2 cells is wide, which the intervals of their repeats carry: a/{MATMUL.id}"
    )
    assert shown == (
        f"1 of 2 cells is of a machine that others used, which no interval shows: a/{IMAGES.id} (noisy: others)."
    )
