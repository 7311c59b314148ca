import random
from dataclasses import replace

import pytest

from tasks.findings.answer import (
    MOST_LINES,
    MOST_WORDS,
    _lead,
    case_by_case,
    cheapest,
    confounded,
    decided,
    fastest,
    headline,
    left_out,
    open_ratios,
    price_notes,
    refused,
    wide,
)
from tasks.findings.compare import compare
from tasks.findings.offers import Offers
from tasks.findings.ranking import Rankings, compared
from tasks.findings.totals import CommonCases
from tasks.report.artifacts import speedup_rows
from tasks.report.grid import grid_of
from tasks.report.html.tables import wide_text
from tasks.report.text.comparison import full_text
from tasks.results.comparison import Caveat
from tasks.results.model import Machine, Pairing
from tasks.results.repeats import group
from tasks.results.speedup import speedup
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import PLAIN, totals_text
from tests.tasks.examples.records import IMAGES, MATMUL, failed, machine, record, repeats, timing
from tests.tasks.examples.script_records import script_repeats
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict

STEADY = (0.999, 1.0, 1.001)
WIDE = {"verdict": Verdict.IMPRECISE, "reasons": ("90 samples did not make the median precise",)}
BUSY = {"verdict": Verdict.NOISY, "reasons": ("others",), "probes": {"foreign_load_share": 0.5}}


def suite(**times):
    records = [
        r
        for name, seconds in times.items()
        for case in (MATMUL, IMAGES)
        for r in repeats([seconds * t for t in STEADY], case, name)
    ]
    return CommonCases.of(group(records, (), {}))


def kinds(comparison):
    return [caveat.kind for caveat in comparison.caveats]


def reasons(caveats):
    return [caveat.reason for caveat in caveats]


def test_the_winner_is_compared_with_the_next_and_the_baseline():
    (line,) = fastest(suite(base=10.0, near=1.2, best=1.0), "base")
    assert line.startswith("Fastest: best, 1.200× (1.196–1.204)")
    assert "10.00× (9.97–10.03) as fast as base" in line and "over 2 cases" in line


def test_a_winning_baseline_is_compared_with_the_next_only():
    (line,) = fastest(suite(base=1.0, near=1.2, far=2.0), "base")
    assert line.startswith("Fastest: base, 1.200×") and "far" not in line


def test_machines_that_cannot_be_distinguished_are_undecided_and_counted():
    (line,) = fastest(suite(base=10.0, one=1.0, two=1.0001, three=1.0002), "base")
    assert "undecided between one, two and three" in line
    many = {f"m{i}": 1.0 + i / 1e5 for i in range(12)}
    (line,) = fastest(suite(base=10.0, **many), "base")
    assert "m0; 11 machines are statistically as fast: m1, m2, m3 and 8 more" in line
    assert len(line.split()) <= MOST_WORDS


def test_the_lead_of_the_best_of_many_allows_for_its_choice():
    two, many = (
        _best_of(suite(base=2.0, best=1.0, **others), "base")
        for others in ({}, {f"m{i}": 1.8 for i in range(18)})
    )
    assert two.value == pytest.approx(many.value) == pytest.approx(2.0, rel=1e-3)
    assert two.low > many.low + 0.001 and two.high < many.high - 0.001


def _best_of(of, baseline):
    return _lead(of, dict.fromkeys(of.logs, 1.0), "best", baseline, baseline)


def noisy(chance, machines):
    records = [
        r
        for place in range(machines)
        for case in (MATMUL, IMAGES)
        for r in repeats([chance.lognormvariate(0, 0.01) for _ in range(3)], case, f"m{place:02}")
    ]
    return CommonCases.of(group(records, (), {}))


@pytest.mark.parametrize("machines", [3, 10])
def test_equal_machines_share_a_place_and_none_is_the_fastest(machines):
    chance, ordered, named = random.Random(machines), 0, 0
    for _ in range(100):
        of = noisy(chance, machines)
        weights = dict.fromkeys(of.logs, 1.0)
        ordered += any(
            ratio.outcome is not RatioVerdict.UNDECIDED for ratio in compared(of, weights).values()
        )
        named += "as fast as" in fastest(of, "m00")[0]
    assert ordered <= 12 and named <= 5


def test_the_cheapest_can_be_the_slowest():
    machines = (machine("base", 1.0), machine("fast", 4.0))
    (line,) = cheapest(suite(base=1.0, fast=0.5), machines, "base")
    assert line.startswith("Cheapest: base, 2.000× (1.995–2.005)") and "as cheap as fast" in line


def test_machines_without_a_price_are_a_caveat_and_not_ranked():
    times = suite(base=1.0, fast=0.5, other=2.0)
    priced = (machine("base", 1.0), machine("fast", 1.0), machine("other", None))
    (line,) = cheapest(times, priced, "base")
    assert line.startswith("Cheapest: fast")
    (caveat,) = (c for c in price_notes(priced, times.logs) if c.kind == "machines without a price")
    assert "other" in caveat.reason and "base" not in caveat.reason
    assert cheapest(times, (), "base") == []


def test_one_machine_gets_its_time_and_a_way_to_compare():
    time, advice = fastest(suite(base=1.0), "base")
    assert "2 cases" in time and "2.000 s" in time and "--on" in advice
    assert cheapest(suite(base=1.0), (machine("base"),), "base") == []


def test_without_a_common_case_there_is_no_total():
    apart = CommonCases.of(group([*repeats([1.0], MATMUL, "a"), *repeats([1.0], IMAGES, "b")], (), {}))
    assert fastest(apart, "a")[0].startswith("No totals")
    assert cheapest(apart, (machine("a"), machine("b")), "a") == []


def test_cases_are_counted_with_the_repeats_that_would_decide_them():
    records = [*repeats([2.0], MATMUL, "a"), *repeats([1.0], MATMUL, "b")]
    found = compare(records, (machine("a"), machine("b")), "a")
    assert found.pairings[0].compute.outcome is RatioVerdict.UNDECIDED
    assert "Decided: 0 of 1 case." in found.answer
    assert any("--repeats 3" in line for line in found.answer)
    (sentence,) = case_by_case(found.pairings)
    assert "undecided in 1 of 1" in sentence and "one repeat has no interval" in sentence


def test_equal_sides_are_called_equal_and_not_sent_to_more_repeats():
    equal = speedup([1.0, 1.0001, 0.9999, 1.0], [1.0, 1.0001, 0.9999, 1.0])
    assert equal.equal and equal.repeats_needed is None
    (line,) = open_ratios([equal])
    assert "equal" in line and "--repeats" not in line


def test_a_long_list_of_failures_names_five_and_counts_the_others():
    records = [failed(Verdict.CAPACITY, "", MATMUL, f"box-{i}") for i in range(7)]
    found = compare(records, (machine("box-0"),), "box-0")
    (reason,) = reasons(refused(found.summaries))
    assert reason.startswith("7 of 7 cells are refused: box-0/matmul/n=5000/fp32 (capacity)")
    assert reason.endswith("and 2 more.") and "box-5" not in reason


def test_a_noisy_cell_gets_advice():
    records = [failed(Verdict.NOISY, "", MATMUL, "a"), failed(Verdict.CAPACITY, "", MATMUL, "b")]
    _, advice = reasons(refused(compare(records, (machine("a"), machine("b")), "a").summaries))
    assert "idle machine" in advice


def test_other_programs_are_not_blamed_for_a_cpu_whose_speed_drifted():
    drifting = replace(timing(1.0), steady=False, samples_s=(1.0, 1.5))
    restless = record(1.0, MATMUL, "a", verdict=Verdict.NOISY, probes={"canary_drift": 0.3}, wall=drifting)
    assert len(refused(compare([restless], (machine("a"),), "a").summaries)) == 1


def test_every_place_gives_the_reason_of_the_verdict_that_it_names():
    records = [record(1.0, MATMUL, "a", 0, **WIDE), record(1.1, MATMUL, "a", 1, **BUSY)]
    found = compare(records, (machine("a"),), "a")
    (summary,) = found.summaries
    assert "(noisy: others)" in reasons(wide(found.summaries))[0]
    assert wide_text(summary) == "≈ wide, noisy; others"
    assert [row["grade"] for row in speedup_rows(found)] == ["wide: others"]


def pairing(name, case, low, outcome=RatioVerdict.UNDECIDED):
    """Return a machine against base, with its ratio's lower bound and corrected verdict."""
    ratio = Ratio(Estimate(1.1, low, 1.2), outcome, "" if outcome is RatioVerdict.FASTER else "why")
    return Pairing(Case.of("matmul", {"n": case}), name, "base", ratio)


def test_verdicts_are_corrected_and_the_answer_says_how_many_that_costs():
    one = [pairing("b", 1, 1.01, RatioVerdict.FASTER), pairing("b", 2, 1.001), pairing("b", 3, 0.9)]
    assert decided(one) == [
        "Decided: 1 of 3 cases; b is faster in 1; 1 more without correction for multiple comparisons."
    ]
    first, second = case_by_case([*one, pairing("c", 1, 0.9)])
    assert "faster in 1, undecided in 2 of 3" in first and "1 interval excludes 1, but not after" in first
    assert "correction for 4 comparisons" in first and "undecided in 1 of 1" in second


def test_the_verdicts_of_equal_machines_hold_together():
    """Uncorrected, four in ten pages of fourteen equal cases have a false verdict."""
    chance, false = random.Random(5), 0
    cases = [Case.of("matmul", {"n": n}) for n in range(64, 64 + 14)]
    for _ in range(60):
        records = [
            r
            for name in "ab"
            for case in cases
            for r in repeats([chance.lognormvariate(0, 0.01) for _ in range(3)], case, name)
        ]
        found = compare(records, (machine("a"), machine("b")), "a").pairings
        false += any(p.compute.outcome is not RatioVerdict.UNDECIDED for p in found)
        assert any(p.compute.chance is not None for p in found)
    assert false <= 8  # at 5 % more are seen once in a hundred simulations


@pytest.mark.parametrize(
    ("notes", "whose"),
    [
        (("on-demand",), None),
        (("Stated assumption", "stated assumption"), "All prices"),
        (("on-demand", "assumed"), "m1"),
    ],
)
def test_assumed_prices_are_a_caveat(notes, whose):
    unpriced = Machine("m", None, "assumed")
    found = price_notes([unpriced, *(Machine(f"m{i}", 1.0, note) for i, note in enumerate(notes))])
    assert [whose in caveat.reason for caveat in found] == ([True] if whose else [])


def test_an_empty_run_has_an_answer():
    assert headline(CommonCases.of(()), (), "base", ())[0].startswith("No results")


def test_differences_between_machines_are_named_once_a_pair():
    pairings = [replace(pairing("b", case, 0.5), confounds=("driver: 1 against 2",)) for case in (1, 2)]
    (reason,) = reasons(confounded(pairings))
    assert reason.startswith("b and base") and reason.count("driver") == 1


def two_machines(**changes):
    """Return two machines, the second twice as fast in two cases; a third case has a single repeat."""
    single = Case.of("matmul", {"n": 64})
    records = [
        r
        for name, seconds in (("a", 2.0), ("b", 1.0))
        for case in (MATMUL, IMAGES)
        for r in repeats([seconds * t for t in STEADY], case, name, **changes)
    ]
    records += [*repeats([2.0, 2.01], single, "a"), *repeats([1.0], single, "b")]
    return compare(records, (machine("a"), machine("b")), "a")


def test_a_headline_counts_its_cases_and_a_caveat_names_the_others():
    found = two_machines()
    assert "over 2 of 3 cases" in found.answer[0]
    (reason,) = (caveat.reason for caveat in found.caveats if caveat.kind == "results left out of totals")
    assert "b/matmul/n=64/fp32" in reason
    assert {(total.cases, total.measured) for total in found.totals} == {(2, 3)}


def test_wide_cells_are_in_the_headline_and_a_caveat():
    found = two_machines(**WIDE)
    assert found.answer[0].startswith("Fastest: b, 2.00×")
    (caveat,) = wide(found.summaries)
    assert caveat in found.caveats and caveat.reason.startswith("4 of 6 cells are wide")
    assert refused(found.summaries) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (BUSY, "other programs used the machine during 4 of its 4 cells"),
        (
            {"verdict": Verdict.NOISY, "reasons": ("faster",), "probes": {"canary_drift": -0.3}},
            "the CPU's speed varied during 4 of its 4 cells",
        ),
    ],
)
def test_totals_of_a_machine_that_was_not_quiet_are_provisional_wherever_they_stand(changes, why):
    found, quiet = two_machines(**changes), two_machines()
    assert found.answer[0].endswith("; provisional.") and "provisional totals" in kinds(found)
    assert any(why in reason for reason in reasons(found.caveats))
    (tally,) = case_by_case(found.pairings)
    assert "faster in 2" in tally and "provisional in 2 of 3" in tally
    assert why in totals_text(found.totals)
    assert why in found.finding(Offers).table().notes[0]
    rankings = found.finding(Rankings).rankings
    assert all(why in r.provisional for r in rankings if r.case is None)
    assert "provisional" not in quiet.answer[0] + case_by_case(quiet.pairings)[0] + totals_text(quiet.totals)
    assert quiet.finding(Offers).table().notes == ()


def test_a_baseline_of_single_repeats_gives_no_speedup():
    records = [
        *repeats([2.0], MATMUL, "a"),
        *repeats([1.0, 1.1], MATMUL, "b"),
        *repeats([3.0, 3.1], MATMUL, "c"),
    ]
    machines = (machine("a"), machine("b"), machine("c"))
    found = compare(records, machines, "a")
    assert found.answer[0].startswith("No speedups: the baseline a lacks")
    suite = CommonCases.of(group(records, (), {}))
    assert any(reason.endswith(": a.") for reason in reasons(left_out(suite)))


def test_a_busy_baseline_is_ranked_with_the_others_provisionally():
    times = {"mine": (1.0, BUSY), "one": (2.0, {}), "two": (4.0, {})}
    records = [
        r
        for name, (seconds, changes) in times.items()
        for case in (MATMUL, IMAGES)
        for r in repeats([seconds * t for t in STEADY], case, name, **changes)
    ]
    found = compare(records, [machine(name) for name in times], "mine")
    for line, word in zip(found.answer, ("Fastest", "Cheapest"), strict=False):
        assert line.startswith(f"{word}: mine, 2.00×") and line.endswith("; provisional.")
    assert "results left out of totals" not in kinds(found)


def test_the_order_of_machines_is_provisional_if_one_was_busy():
    records = [
        r
        for name, seconds, changes in (("a", 1.0, {}), ("b", 2.0, {}), ("c", 3.0, BUSY))
        for r in repeats([seconds * t for t in STEADY], MATMUL, name, **changes)
    ]
    found = compare(records, [machine(name, None) for name in "abc"], "a")
    (order,) = (sentence for sentence in found.observations if "1. a, 2. b, 3. c" in sentence)
    assert "provisional: other programs used the machine during 1 of its 3 cells" in order


def test_wide_and_busy_cells_are_separate_caveats():
    records = [*repeats([1.0, 1.1], MATMUL, "a", **WIDE), *repeats([1.0, 1.1], IMAGES, "a", **BUSY)]
    quiet, busy = wide(compare(records, (machine("a"),), "a").summaries)
    assert (quiet.kind, busy.kind) == ("wide results", "busy machines")
    assert f"a/{MATMUL.id}" in quiet.reason and f"a/{IMAGES.id} (noisy: others)" in busy.reason


def assert_short_and_whole(records, found):
    """Assert that the answer has few short lines, and the text below it every reason."""
    assert 1 <= len(found.answer) <= MOST_LINES
    assert all(len(line.split()) <= MOST_WORDS for line in (*found.answer, found.caveat_line)), found.answer
    assert all(line.endswith(".") and "…" not in line for line in found.answer)
    assert found.caveat_line.startswith(str(len(found.caveats)) if found.caveats else "")
    below = " ".join(full_text(records, grid_of(records, found)).split())
    for sentence in (*found.details, *(caveat.reason for caveat in found.caveats)):
        plain = sentence.translate(PLAIN | {0xA0: " ", 0x2019: "'"})
        assert " ".join(plain.split()) in below


@pytest.mark.parametrize("count", [1, 2, 6, 40])
@pytest.mark.parametrize("changes", [{}, WIDE, BUSY, {"verdict": Verdict.WRONG}])
@pytest.mark.parametrize("price", [1.0, None])
@pytest.mark.parametrize("repeated", [1, 3])
def test_the_answer_is_short_and_its_reasons_are_below_for_any_run(count, changes, price, repeated):
    names = [f"a-long-name-of-a-machine-{i}" for i in range(count)]
    records = [
        r
        for i, name in enumerate(names)
        for case in (MATMUL, IMAGES)
        for r in repeats([(1 + i / 50) * t for t in STEADY[:repeated]], case, name, **changes)
    ]
    assert_short_and_whole(records, compare(records, [machine(name, price) for name in names], names[0]))


@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("price", [1.0, None])
@pytest.mark.parametrize("verdict", [Verdict.OK, Verdict.NOISY])
def test_the_answer_about_a_script_is_short_and_its_reasons_are_below(count, price, verdict):
    names = [f"a-long-name-of-a-machine-{i}" for i in range(count)]
    records = [
        replace(r, verdict=verdict)
        for i, name in enumerate(names)
        for batch in (16, 32, 64)
        for r in script_repeats(
            name, [(0.1 + i / 50) * t for t in STEADY], case=Case.of("train", {"batch": batch}, "own")
        )
    ]
    found = compare(records, [machine(name, price) for name in names], names[0])
    assert_short_and_whole(records, found)
    assert "train batch=16" in " ".join(found.answer).lower() or verdict is Verdict.NOISY


def test_the_answer_says_how_many_repeats_would_decide_the_rest():
    undecided = Ratio(Estimate(1.1, 0.9, 1.3), RatioVerdict.UNDECIDED, repeats_needed=9)
    assert "decide the rest" in open_ratios([undecided])[0] and "--repeats 9" in open_ratios([undecided])[0]
    (line,) = open_ratios([undecided, replace(undecided, repeats_needed=None)])
    assert "1 of the 2 undecided" in line


@pytest.mark.parametrize(
    ("count", "end"), [(5, "kind 4."), (6, "kind 4 and 1 other kind."), (7, "and 2 other kinds.")]
)
def test_the_line_of_caveats_counts_the_kinds_that_it_does_not_name(count, end):
    found = compare([], (machine("a"),), "a")
    found = replace(found, caveats=tuple(Caveat(f"kind {i}", "why") for i in range(count)))
    assert found.caveat_line.startswith(f"{count} caveats: kind 0") and found.caveat_line.endswith(end)
