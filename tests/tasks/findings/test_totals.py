import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from tasks.findings.answer import fastest
from tasks.findings.ranking import ordered
from tasks.findings.totals import CommonCases, geomean_ratio, time_ratio, total_seconds, totals
from tasks.results.repeats import group
from tasks.results.speedup import speedup
from tasks.results.values import Estimate
from tests.tasks.examples import seed_table
from tests.tasks.examples.records import IMAGES, MATMUL, failed, machine, repeats, work
from workloads.harness.records.case import Case
from workloads.harness.records.intervals import log_mean_interval, t_quantile
from workloads.harness.records.record import Grade, Verdict

A, B = machine("a", 3600.0), machine("b", None)


def suite_of(*records):
    return CommonCases.of(group([r for group in records for r in group], (A, B), {}))


def test_totals_are_over_the_cases_that_all_have():
    suite = suite_of(
        repeats([1.0, 1.0], MATMUL, "a"),
        repeats([2.0, 2.0], IMAGES, "a"),
        repeats([4.0, 4.0], IMAGES, "b"),
        [failed(Verdict.OUT_OF_MEMORY, "no memory", MATMUL, "b")],
    )
    a, b = totals(suite, (A, B), "b")
    assert suite.cases == (IMAGES,)
    assert (a.hardware, a.cases, a.seconds, a.usd) == ("a", 1, pytest.approx(2.0), pytest.approx(2.0))
    assert (b.hardware, b.seconds, b.usd) == ("b", pytest.approx(4.0), None)
    assert a.speedup.value == pytest.approx(2.0)
    assert a.geomean_speedup.value == pytest.approx(2.0)
    assert b.speedup is b.geomean_speedup is None


def test_a_machine_without_any_ok_cell_is_not_compared():
    suite = suite_of(repeats([1.0], MATMUL, "a"), [failed(Verdict.CAPACITY, "none left", MATMUL, "b")])
    assert [t.hardware for t in totals(suite, (A, B), "b")] == ["a"]
    assert totals(suite, (A, B), "b")[0].speedup is None


def test_no_common_case_no_total():
    assert totals(suite_of(repeats([1.0], MATMUL, "a"), repeats([1.0], IMAGES, "b")), (A, B), "a") == ()
    assert totals(CommonCases.of(()), (A, B), "a") == ()


def test_more_work_per_step_is_counted_as_the_same_work():
    plain = work(IMAGES)
    eightfold = replace(plain, units=8 * plain.units)
    suite = suite_of(repeats([1.0], IMAGES, "a"), repeats([1.0], IMAGES, "b", work=eightfold))
    assert time_ratio(suite, "a", "b").value == pytest.approx(8.0)


def test_of_one_case_both_ratios_are_welchs():
    ours, theirs = [1.0, 1.02, 0.99, 1.01], [2.0, 2.1, 1.9]
    suite = suite_of(repeats(ours, MATMUL, "a"), repeats(theirs, MATMUL, "b"))
    expected = speedup(theirs, ours).estimate
    for ratio in (time_ratio(suite, "b", "a"), geomean_ratio(suite, "b", "a")):
        assert ratio.value == pytest.approx(expected.value)
        assert (ratio.low, ratio.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_a_single_repeat_gives_no_bounds():
    suite = suite_of(repeats([1.0, 1.1], MATMUL, "a"), repeats([2.0], MATMUL, "b"))
    assert time_ratio(suite, "b", "a").low is geomean_ratio(suite, "b", "a").low is None


def test_identical_repeats_give_a_closed_interval():
    suite = suite_of(repeats([1.0] * 3, MATMUL, "a"), repeats([2.0] * 3, MATMUL, "b"))
    value = time_ratio(suite, "b", "a")
    assert value == Estimate(value.value, value.value, value.value)


def drifting(k, spread_a, spread_b, at=None):
    """Return `k` equal cases on two entries, each with its spread; `at` gives seconds since the start."""
    return of_entries(k, {"a": spread_a, "b": spread_b}, at)


def of_entries(k, sides, at=None):
    cases = [replace(IMAGES, size=(("pixels", 2**i),)) for i in range(k)]
    return [
        replace(
            each,
            environment={"hostname": "one-box"},
            wall_s=8.0,
            started_at=datetime.fromtimestamp(at(place, each.repeat, name) if at else 0, UTC).isoformat(),
        )
        for place, case in enumerate(cases)
        for name, spread in sides.items()
        for each in repeats(spread, case, name)
    ]


@pytest.mark.parametrize("ratio", [time_ratio, geomean_ratio])
def test_cases_that_change_together_do_not_narrow_a_total(ratio):
    """Nine cases that slow in the same round say no more than one."""
    one, nine = (ratio(suite_of(drifting(k, [0.97, 1.0, 1.03], [1.0, 1.03, 0.97])), "a", "b") for k in (1, 9))
    assert (nine.low, nine.high) == (pytest.approx(one.low), pytest.approx(one.high))


def test_a_total_is_as_wide_as_its_rounds_differ():
    nine = total_seconds(suite_of(drifting(9, [0.97, 1.0, 1.03], [1.0] * 3)), "a")
    expected = log_mean_interval([0.97, 1.0, 1.03])
    assert nine.high / nine.value == pytest.approx(expected.high / expected.value, rel=1e-3)


@pytest.mark.parametrize("ratio", [time_ratio, geomean_ratio])
def test_drift_that_both_sides_of_a_pair_share_leaves_their_ratio(ratio):
    def one_lane_after_the_other(place, repeat, name):
        return in_turns(place, repeat, "a") + (10_000.0 if name == "b" else 0.0)

    slower = [1.0, 1.3, 1.1]
    pairs, apart = (
        ratio(suite_of(drifting(9, slower, slower, at)), "a", "b")
        for at in (in_turns, one_lane_after_the_other)
    )
    assert pairs.low == pairs.value == pairs.high == pytest.approx(1)
    assert apart.high > 1.2


def in_turns(place, repeat, name):
    return 100.0 * (9 * repeat + place) + (20.0 if name == "b" else 0.0)


def test_the_order_of_machines_and_their_ratio_rest_on_the_same_repeats():
    """By all repeats `a` is ahead, by pairs `b` is."""
    records = drifting(2, [1.0, 1.0, 1.0, 1.0], [0.99, 0.99, 0.99, 1.3], in_turns)
    lacking = [r for r in records if (r.hardware, r.repeat) != ("a", 3)]
    suite = suite_of(lacking)
    weights = {"a": 1.0, "b": 1.0}
    assert ordered(suite, weights) == ["b", "a"]
    assert time_ratio(suite, "a", "b").value == pytest.approx(1 / 0.99)
    assert [total.seconds for total in totals(suite, (A, B), "a")] == pytest.approx([2.0, 1.98])
    assert "Fastest: b" in fastest(suite, "a")[0]


def test_a_repeat_needs_its_partner_on_every_entry_of_the_box():
    sides = {"a": [1.0] * 4, "b": [1.1] * 4, "c": [1.2] * 4}
    records = of_entries(
        2, sides, lambda place, repeat, name: in_turns(place, repeat, "") + 10 * "abc".index(name)
    )
    lacking = [r for r in records if (r.hardware, r.repeat) not in {("a", 0), ("b", 1)}]
    kept = suite_of(lacking).repeats
    assert kept == {name: [[2, 3], [2, 3]] for name in "abc"}
    fewer = [r for r in lacking if (r.hardware, r.repeat) != ("c", 2)]
    suite = suite_of(fewer)
    assert not suite.are_pairs and suite.repeats["b"] == [[0, 2, 3], [0, 2, 3]]


def test_a_round_that_lacks_most_of_its_cases_is_not_a_unit():
    whole = [[0.0, 0.01, 0.02]] * 3
    ragged = [[0.0, 0.01, 0.02], [0.0, 0.01], [0.0, 0.01]]
    suite = CommonCases((IMAGES,) * 3, {"a": whole, "b": ragged})
    assert math.log(total_seconds(suite, "b").high / total_seconds(suite, "b").value) == pytest.approx(
        t_quantile(0.975, 1) * math.sqrt((0.01 / 2) ** 2), rel=0.01
    )


@pytest.mark.parametrize("ratio", [time_ratio, geomean_ratio])
def test_suite_ratios_cover_the_truth_as_often_as_they_say(ratio):
    """Six cases of unlike length, 2 % between repeats, 3 repeats a side."""
    chance, draws = np.random.default_rng(11), 400
    lengths = np.array([0.01, 0.1, 0.2, 0.5, 1.0, 2.0])
    logs = np.log(lengths)[:, None] + chance.normal(0, 0.02, (draws, 2, 6, 3))
    covered = 0
    for a, b in logs.tolist():
        estimate = ratio(CommonCases((IMAGES,) * 6, {"a": a, "b": b}), "a", "b")
        covered += estimate.low <= 1 <= estimate.high
    assert 0.92 <= covered / draws <= 0.98


def test_the_published_total_hides_time_that_is_in_no_row():
    """The blog says 3.34 times; its rows say 4.77, and 10.3 without the one cold call."""
    cells = group(seed_table.records(), (seed_table.CPU, seed_table.GPU), {})
    rows = CommonCases.of(cells)
    assert time_ratio(rows, "r5.4xlarge", "g5.8xlarge").value == pytest.approx(4.77, abs=0.005)
    assert seed_table.JOB_S[0] / seed_table.JOB_S[1] == pytest.approx(3.34, abs=0.005)
    warm = CommonCases.of([cell for cell in cells if cell.cell.case.params.get("n") != 1000])
    assert time_ratio(warm, "r5.4xlarge", "g5.8xlarge").value == pytest.approx(10.3, abs=0.05)
    assert geomean_ratio(rows, "r5.4xlarge", "g5.8xlarge").value == pytest.approx(4.71, abs=0.05)


BUSY = {"verdict": Verdict.NOISY, "probes": {"foreign_load_share": 0.5}}


def test_a_single_repeat_takes_its_case_out_and_not_the_total():
    suite = suite_of(
        repeats([1.0, 1.1], MATMUL, "a"),
        repeats([2.0, 2.1], MATMUL, "b"),
        repeats([1.0, 1.1], IMAGES, "a"),
        repeats([2.0], IMAGES, "b"),
    )
    assert suite.cases == (MATMUL,) and suite.measured == 2
    assert suite.left_out == (f"b/{IMAGES.id}",)
    assert time_ratio(suite, "b", "a").low is not None


def test_a_machine_of_single_repeats_does_not_take_the_total_of_the_others():
    pairs = [repeats([seconds, 1.1 * seconds], MATMUL, name) for name, seconds in (("a", 1.0), ("b", 2.0))]
    suite = suite_of(*pairs, repeats([3.0], MATMUL, "c"))
    assert suite.dropped == ("c",) and time_ratio(suite, "b", "a").low is not None
    nobody = suite_of(pairs[0], repeats([3.0], MATMUL, "c"))
    assert nobody.dropped == () and time_ratio(nobody, "c", "a").low is None


def test_busy_cells_are_in_a_total_only_if_there_are_no_quiet_cells():
    busy = [repeats([seconds, 1.1 * seconds], IMAGES, name, **BUSY) for name, seconds in (("a", 1), ("b", 2))]
    quiet = [repeats([seconds, 1.1 * seconds], MATMUL, name) for name, seconds in (("a", 1), ("b", 2))]
    both = suite_of(*quiet, *busy)
    assert both.cases == (MATMUL,) and both.busy == 0
    assert both.left_out == (f"a/{IMAGES.id}", f"b/{IMAGES.id}")
    alone = suite_of(*busy)
    assert alone.cases == (IMAGES,) and alone.busy == 2 and alone.grades == (Grade.WIDE, Grade.WIDE)


def cells(quiet, names="ab", of=4):
    """Return a suite of `of` cases with two repeats a machine; the last is quiet in `quiet` of them."""
    return suite_of(
        *(
            repeats([1.0, 1.1], Case.of("matmul", {"n": 64 * case}), name, **changes)
            for name in names
            for case in range(1, of + 1)
            for changes in (BUSY if name == names[-1] and case > quiet else {},)
        )
    )


def test_a_busy_machine_stays_in_the_total_and_marks_it():
    suite = cells(quiet=0, names="abc")
    assert (set(suite.logs), suite.dropped, suite.left_out) == ({"a", "b", "c"}, (), ())
    assert (len(suite.cases), suite.busy) == (4, 4)


@pytest.mark.parametrize(("quiet", "cases", "busy"), [(0, 4, 4), (1, 4, 3), (2, 2, 0), (3, 3, 0), (4, 4, 0)])
def test_quiet_cells_are_the_total_where_they_are_half_of_it(quiet, cases, busy):
    suite = cells(quiet)
    assert (len(suite.cases), suite.busy, len(suite.left_out)) == (cases, busy, 4 - cases)


def test_cells_outside_a_total_are_named_in_the_order_of_their_cases():
    suite = cells(quiet=8, of=14)
    assert suite.left_out == tuple(f"b/matmul/n={64 * case}/fp32" for case in range(9, 15))
