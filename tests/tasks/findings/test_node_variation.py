import math
import random
from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.node_variation import ODD_OF_TWO, NodeVariation, node_groups
from tasks.results.repeats import group
from tests.tasks.examples.records import failed, machine, repeats
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict

KIND = "lambda-1x-a10"
CASES = [Case.of("matmul", {"n": n}) for n in (500, 1000, 2000, 4000)]


def box(name):
    return f"{KIND}.{name}"


def records(factors, cases=CASES, noise=0.002, count=3, seed=1):
    chance = random.Random(seed)
    return [
        found
        for name, factor in factors.items()
        for place, case in enumerate(cases)
        for found in repeats(
            [(1 + 7 * place) * 1e-2 * factor * math.exp(chance.gauss(0, noise)) for _ in range(count)],
            case,
            box(name),
        )
    ]


def compared(made, names, others=()):
    machines = (*others, *(machine(box(name), shape=KIND) for name in names))
    return compare(made, machines, machines[0].name)


def alone(made, names):
    machines = [machine(box(name), shape=KIND) for name in names]
    (one,) = node_groups(group(made, machines, {}), machines)
    return one


def found(factors, **changes):
    (one,) = compared(records(factors, **changes), factors).finding(NodeVariation).groups
    return one


def test_a_straggler_among_four_is_found_with_its_factor():
    one = found({"a": 1.0, "b": 1.003, "c": 1.2, "d": 0.998})
    assert [b.hardware for b in one.boxes if b.straggler] == [box("c")] == [one.boxes[-1].hardware]
    slow = one.boxes[-1].ratio
    assert slow.low < 1.2 / 1.0015 < slow.high and slow.low > 1.18  # the median box is between a and b
    assert one.spread.low < 1.2 / 0.998 < one.spread.high and (one.shape, one.cases) == (KIND, 4)
    assert [b.ratio.value for b in one.boxes] == sorted(b.ratio.value for b in one.boxes)


@pytest.mark.parametrize("seed", range(10))
def test_noise_of_a_percent_is_no_straggler(seed):
    one = found(dict.fromkeys("abcd", 1.0), noise=0.01, seed=seed)
    assert not any(b.straggler for b in one.boxes)


def test_boxes_that_scatter_have_no_straggler():
    one = found({"a": 0.9, "b": 1.0, "c": 1.1, "d": 1.2})
    assert not any(b.straggler for b in one.boxes) and one.spread.low > 1.3


def test_a_fast_box_is_no_straggler():
    assert not any(b.straggler for b in found({"a": 1.0, "b": 0.7, "c": 1.001, "d": 0.999}).boxes)


def test_of_two_boxes_neither_is_flagged():
    comparison = compared(records({"a": 1.0, "b": 1.3}), "ab")
    (one,) = comparison.finding(NodeVariation).groups
    assert not any(b.straggler for b in one.boxes) and one.spread.low > 1.28
    assert comparison.answer[0].startswith(f"2 machines of {KIND}: {box('b')} takes 1.30")
    assert ODD_OF_TWO in comparison.details[0]


def test_a_box_that_lacks_a_case_is_compared_on_the_common_cases():
    made = [
        r for r in records({"a": 1.0, "b": 1.0, "c": 1.0}) if r.case != CASES[1] or r.hardware != box("b")
    ]
    made += [failed(Verdict.OUT_OF_MEMORY, "full", CASES[1], box("b"))]
    assert compared(made, "abc").finding(NodeVariation).groups[0].cases == 3


def test_a_box_without_an_ok_cell_is_named_and_the_others_are_compared():
    made = [*records({"a": 1.0, "b": 1.1}), failed(Verdict.CAPACITY, "none", CASES[0], box("c"))]
    comparison = compared(made, "abc")
    assert (
        comparison.finding(NodeVariation).groups[0].left_out == (box("c"),)
        and len(comparison.finding(NodeVariation).groups[0].boxes) == 2
    )
    assert f"not compared, because of too few repeats: {box('c')}." in comparison.details[0]


def test_a_box_that_was_busy_is_compared_provisionally():
    made = [
        replace(r, verdict=Verdict.NOISY, probes={"foreign_load_share": 0.5}) if r.hardware == box("d") else r
        for r in records({"a": 1.0, "b": 1.003, "c": 0.998, "d": 1.2})
    ]
    comparison = compared(made, "abcd")
    (one,) = comparison.finding(NodeVariation).groups
    assert len(one.boxes) == 4 and one.left_out == ()
    assert "; provisional: other programs used the machine during 4 of its 16 cells" in comparison.details[0]
    assert any("provisional" in note for note in comparison.finding(NodeVariation).table().notes)


def test_one_box_or_no_common_case_is_nothing_to_compare():
    assert compared(records({"a": 1.0}), "a").finding(NodeVariation).groups == ()
    apart = [*records({"a": 1.0}, CASES[:2]), *records({"b": 1.0}, CASES[2:])]
    assert compared(apart, "ab").finding(NodeVariation).groups == ()


def test_machines_that_are_no_boxes_have_no_node_groups():
    made = records({"a": 1.0, "b": 1.0})
    assert compare(made, (machine(box("a")), machine(box("b"))), box("a")).finding(NodeVariation).groups == ()


def test_one_repeat_has_no_interval_and_flags_no_box():
    comparison = compared(records({"a": 1.0, "b": 1.0, "c": 2.0}, count=1), "abc")
    (one,) = comparison.finding(NodeVariation).groups
    assert one.spread.low is None and not any(b.straggler for b in one.boxes)
    assert "one repeat has no interval" in comparison.details[0]


def test_boxes_that_are_not_told_apart_are_said_to_be():
    made = records(dict.fromkeys("abc", 1.0), noise=0.01, seed=2)
    text = compared(made, "abc").details[0]
    assert text.startswith(f"The 3 machines of {KIND} are statistically indistinguishable over 4 cases: ")


def test_the_answer_names_the_straggler_and_comes_after_that_of_other_machines():
    made = [
        *records({"a": 1.0, "b": 1.0, "c": 1.25}),
        *(r for c in CASES for r in repeats([9.0, 9.1], c, "cpu")),
    ]
    answer = compared(made, "abc", [machine("cpu")]).sentences
    assert answer[0].startswith("Fastest: ")
    (text,) = (sentence for sentence in answer if sentence.startswith("Of 3 machines"))
    assert f"; {box('c')} is a straggler at 1.2" in text and "the time of the median machine." in text


def test_cases_beyond_the_suite_do_not_count():
    made = records({"a": 1.0, "b": 1.0})
    machines = [machine(box(name), shape=KIND) for name in "ab"]
    (one,) = compare(made, machines, machines[0].name, suite_cases=CASES[:2]).finding(NodeVariation).groups
    assert one.cases == 2


def test_two_kinds_are_two_findings():
    made = records({"a": 1.0, "b": 1.1})
    made += [r for name in ("x.1", "x.2") for r in repeats([1.0, 1.01], CASES[0], name)]
    machines = [machine(box(n), shape=KIND) for n in "ab"] + [machine(f"x.{n}", shape="x") for n in "12"]
    assert [one.shape for one in compare(made, machines, box("a")).finding(NodeVariation).groups] == [
        KIND,
        "x",
    ]


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Equal boxes: the spread, although its two were picked, and each box against the median."""
    held = spreads = rounds = 0
    for seed in range(100):
        one = alone(records(dict.fromkeys("abcde", 1.0), CASES[:2], noise=0.01, seed=seed), "abcde")
        rounds += 1
        spreads += one.spread.low <= 1
        held += sum(b.ratio.low <= 1 <= b.ratio.high for b in one.boxes) / len(one.boxes)
    assert spreads / rounds >= 0.95 and held / rounds >= 0.95


def test_the_widest_interval_is_still_a_number():
    """Many boxes with two repeats of one case: a t-quantile of thousands."""
    factors = {str(number): 1.0 for number in range(50)}
    one = alone(records(factors, CASES[:1], noise=0.3, count=2), factors)
    assert one.spread.low >= 0 and one.spread.high > one.spread.value > 1


def test_nothing_measured_is_no_finding():
    assert node_groups([], [machine(box("a"), shape=KIND), machine(box("b"), shape=KIND)]) == ()
