import math
import random
from dataclasses import replace

import pytest

from tasks.findings.two_runs import ComparedRun
from tasks.regressions.change import GateLimits, Sample, changes_between, repeats_needed
from tasks.regressions.run_gate import CellStatus, RunComparison, compare_cells
from tests.benchmarks.simulated.gate import compared
from tests.tasks.examples.records import ENVIRONMENT, MATMUL, failed, machine, record
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict

HERE = "cpu-box"
CALM = (1.0, 1.004, 0.997)
CELL = Cell(HERE, MATMUL)
ALONE = GateLimits(least=0.0, run_effect=0.0)  # repeats alone, and every change is of interest


def side(name, times, case=MATMUL, controls=(), reference="frozen", **changes):
    beside = [Control(reference, "ok", (), seconds) for seconds in controls] or [None] * len(times)
    found = [
        record(seconds, case, HERE, repeat, run=name, control=control, **changes)
        for repeat, (seconds, control) in enumerate(zip(times, beside, strict=True))
    ]
    return ComparedRun(name, tuple(found), (machine(HERE),), HERE)


def against(now, before, planned=(CELL,), **limits) -> RunComparison:
    """Compare by repeats alone, unless `run_effect` widens it."""
    return compare_cells(now, before, set(planned), GateLimits(**{"run_effect": 0.0} | limits))


def only(found: RunComparison):
    (one,) = found.cells
    return one


def slower(*factors, times=CALM):
    return [seconds * factor for seconds, factor in zip(times, factors * len(times), strict=False)]


def test_a_change_that_the_interval_supports_is_told_in_both_directions():
    found = only(against(side("now", slower(1.1)), side("before", CALM)))
    assert found.status is CellStatus.SLOWER and found.change.share.value == pytest.approx(0.1)
    assert 0 < found.change.share.low < 0.1 < found.change.share.high
    assert found.now_s.value == pytest.approx(1.1 * found.before_s.value)
    found = only(against(side("now", CALM), side("before", slower(1.1))))
    assert found.status is CellStatus.FASTER and found.change.share.value == pytest.approx(1 / 1.1 - 1)


def test_a_change_below_the_least_one_or_within_its_interval_is_unchanged():
    now, before = side("now", slower(1.015)), side("before", CALM)
    assert only(against(now, before)).status is CellStatus.UNCHANGED
    assert only(against(now, before, least=0.01)).status is CellStatus.SLOWER


def test_unchanged_is_a_claim_with_a_width():
    calm = only(against(side("now", CALM), side("before", CALM)))
    assert calm.status is CellStatus.UNCHANGED and 0 < calm.change.most < 0.01
    noisy = against(side("now", [1.0, 1.3, 1.1]), side("before", [1.2, 0.9, 1.05]))
    assert only(noisy).status is CellStatus.UNDECIDED and noisy.exit_code() == 3
    assert only(noisy).change.most > 0.2 and f"{100 * only(noisy).change.most:.2g} %" in only(noisy).why
    wide = against(side("now", [1.0, 1.3, 1.1]), side("before", [1.2, 0.9, 1.05]), margin=0.6)
    assert only(wide).status is CellStatus.UNCHANGED and wide.exit_code() == 0
    one_way = only(against(side("now", [1.0, 1.02, 0.98]), side("before", [1.0, 1.09, 1.03])))
    assert one_way.status is CellStatus.NOT_SLOWER and one_way.change.most < 0.05
    assert one_way.change.likely.low < -0.05


def test_the_exit_code_of_a_run_gate_follows_its_verdict():
    def of(now, before):
        return against(now, before).exit_code()

    assert of(side("now", CALM), side("before", CALM)) == 0
    assert of(side("now", slower(1.2)), side("before", CALM)) == 1
    assert of(side("now", slower(0.8)), side("before", CALM)) == 0
    assert of(side("now", CALM[:1]), side("before", CALM)) == 3


def test_one_undecided_cell_is_no_success_unless_that_is_allowed():
    other = Case.of("matmul", {"n": 64})
    runs = [side(name, CALM) for name in ("now", "before")]
    few = [side(name, CALM[:1], other) for name in ("now", "before")]
    both = [replace(a, records=a.records + b.records) for a, b in zip(runs, few, strict=True)]
    found = against(*both, planned=(CELL, Cell(HERE, other)))
    assert [cell.status for cell in found.cells] == [CellStatus.UNDECIDED, CellStatus.UNCHANGED]
    assert (found.exit_code(), found.exit_code(allow_undecided=True)) == (3, 0)
    assert against(*few, planned=(Cell(HERE, other),)).exit_code(allow_undecided=True) == 3


def test_a_lone_cell_must_change_by_more_than_runs_do_on_their_own():
    """Below five cells the effect of a run is assumed: 2 %, or as stated."""
    sides = side("now", slower(1.04)), side("before", CALM)
    assert only(against(*sides)).status is CellStatus.SLOWER
    one = only(against(*sides, run_effect=0.02))
    assert one.status is CellStatus.UNDECIDED and "run_effect 0.02" in one.why and one.change.repeats is None
    assert one.change.share.low < 0 < one.change.share.high
    assert only(against(side("now", slower(1.12)), sides[1], run_effect=0.02)).status is CellStatus.SLOWER


def test_too_few_repeats_say_how_many_it_takes():
    one = only(against(side("now", CALM[:1]), side("before", CALM)))
    assert one.status is CellStatus.UNDECIDED and one.change is None
    assert (
        one.why
        == "now has 1 usable repeat of it, and at least 2 are needed; 3 usable repeats or more in both runs (--repeats) can decide it"
    )
    noisy = only(against(side("now", [1.0]), side("before", [1.0, 1.05, 0.96])))
    assert "--repeats" not in noisy.why and "quieter machine" in noisy.why
    neither = only(against(side("now", CALM[:1]), side("before", CALM[:1])))
    assert "now has 1 usable repeat and before has 1 usable repeat of it" in neither.why


def test_the_repeats_it_takes_grow_with_noise_and_suffice():
    few, more = repeats_needed(0.003, 0.99, 0.02), repeats_needed(0.01, 0.99, 0.02)
    assert 2 < few < more and repeats_needed(1.0, 0.99, 0.02) is None
    rng, told = random.Random(5), 0
    for _ in range(200):
        times = [[math.exp(rng.gauss(shift, 0.01)) for _ in range(more)] for shift in (0.02, 0.0)]
        (change,) = changes_between([(Sample(tuple(times[0])), Sample(tuple(times[1])))], 0.99, ALONE)
        told += change.share.low > 0
    assert 80 < told < 170  # even odds, and somewhat better: the last repeat is a whole one


def test_repeats_that_would_not_show_a_doubling_decide_nothing():
    one = only(against(side("now", [1.0, 4.0]), side("before", [2.0, 1.5])))
    assert one.status is CellStatus.UNDECIDED and one.change.smallest > 1
    assert "quieter machine" in one.why and one.change.repeats is None


def test_a_cell_that_was_ok_and_is_not_is_lost():
    bad = replace(side("now", []), records=(replace(failed(Verdict.CRASHED, "it died"), run="now"),))
    one = only(against(bad, side("before", CALM)))
    assert one.status is CellStatus.LOST and one.why.endswith("now crashed: it died")
    gone = only(against(side("now", []), side("before", CALM)))
    assert gone.status is CellStatus.LOST and gone.why == "now has no record of it"
    assert against(side("now", []), side("before", CALM)).exit_code() == 1


def test_a_cell_that_was_not_planned_or_not_ok_before_is_not_lost():
    dropped = against(side("now", []), side("before", CALM), planned=())
    assert only(dropped).status is CellStatus.NOT_COMPARABLE and dropped.exit_code() == 3
    assert "did not plan" in only(dropped).why
    new = only(against(side("now", CALM), side("before", [])))
    assert new.status is CellStatus.NOT_COMPARABLE and new.why == "before has no record of it"
    bad = replace(side("before", []), records=(replace(failed(Verdict.TIMEOUT, "late"), run="before"),))
    old = only(against(side("now", CALM), bad))
    assert old.status is CellStatus.NOT_COMPARABLE and old.why == "in before it is timeout: late"


def test_another_machine_is_not_comparable_and_its_difference_is_named():
    now = side("now", slower(1.5), environment=ENVIRONMENT | {"nvidia_driver": "580.1", "hostname": "b"})
    before = side("before", CALM, environment=ENVIRONMENT | {"nvidia_driver": "570.1", "hostname": "a"})
    one = only(against(now, before))
    assert one.status is CellStatus.NOT_COMPARABLE
    assert one.why == "the machine differs: nvidia_driver 580.1 against 570.1"
    unknown = side("before", CALM, environment={})
    assert only(against(now, unknown)).status is CellStatus.SLOWER  # an unknown fact is not a difference
    hostile = side("before", CALM, environment={"gpus": [3], "memory_total_bytes": "much"})
    assert only(against(now, hostile)).status is CellStatus.SLOWER


def test_another_torch_is_reported_and_does_not_stop_the_comparison():
    now = side("now", CALM, environment=ENVIRONMENT | {"torch": "2.14.0"})
    found = against(now, side("before", CALM))
    assert found.notes == (f"{HERE}: torch: 2.14.0 against 2.13.0",) and found.exit_code() == 0


def test_records_of_another_run_and_implausible_ones_do_not_count():
    now = side("now", CALM)
    mixed = replace(now, records=(*now.records, *side("other", [9.0, 9.1]).records))
    one = only(against(mixed, side("before", CALM)))
    assert one.status is CellStatus.UNCHANGED and one.change.share.value == pytest.approx(0)
    impossible = side("now", CALM, wall_s=-1.0)
    assert only(against(impossible, side("before", CALM))).status is CellStatus.LOST


def test_the_slower_come_first_the_most_changed_before_the_others():
    cases = [Case.of("matmul", {"n": n}) for n in (64, 128, 256, 512)]
    before, now = [], []
    for place, (case, factor) in enumerate(zip(cases, (1.0, 1.1, 0.7, 1.3), strict=True)):
        times = [seconds * 10.0**place for seconds in CALM]
        before += side("before", times, case).records
        now += side("now", slower(factor, times=times), case).records
    sides = [replace(side(name, []), records=tuple(of)) for name, of in (("now", now), ("before", before))]
    found = against(*sides, planned=[Cell(HERE, case) for case in cases])
    assert [one.cell.case for one in found.cells] == [cases[3], cases[1], cases[2], cases[0]]
    assert [str(one.status) for one in found.cells] == ["slower", "slower", "faster", "unchanged"]
    assert found.confidence == pytest.approx(1 - 2 * 0.05 / 4)


def test_a_slow_box_whose_controls_show_it_is_no_failure():
    box = (1.20, 1.22, 1.19)
    now = side("now", slower(*box), controls=slower(*box, times=(2.0, 2.01, 1.99)))
    before = side("before", CALM, controls=(2.0, 2.01, 1.99))
    one = only(against(now, before))
    assert one.status is CellStatus.UNCHANGED and one.change.paired
    alone = only(against(side("now", slower(*box)), side("before", CALM)))
    assert alone.status is CellStatus.SLOWER and not alone.change.paired


def test_a_slowdown_on_a_slow_box_is_found_beside_its_controls():
    now = side("now", slower(1.2 * 1.1), controls=[2.40, 2.41, 2.39])
    one = only(against(now, side("before", CALM, controls=[2.0, 2.01, 1.99])))
    assert one.status is CellStatus.SLOWER and one.change.share.value == pytest.approx(0.1, abs=0.002)


def test_controls_of_another_reference_or_that_failed_do_not_count():
    now = side("now", slower(1.2), controls=[2.4, 2.41, 2.39], reference="newer")
    found = against(now, side("before", CALM, controls=[2.0, 2.01, 1.99]))
    assert only(found).status is CellStatus.SLOWER and not only(found).change.paired
    assert found.notes[0].startswith(HERE) and "different reference" in found.notes[0]
    dead = side("now", slower(1.2), controls=[2.4, 2.41, 2.39])
    dead = replace(
        dead,
        records=tuple(replace(r, control=replace(r.control, verdict="crashed")) for r in dead.records),
    )
    assert only(against(dead, side("before", CALM, controls=[2.0, 2.01, 1.99]))).change.paired is False


def simulated(rng, cells, repeats, sd, box=0.0, slow=0.0, shared=0.0):
    """Return (now, before) of cells with controls: noise `sd` in logs, and each repeat's box effect."""

    def one(shift, more):
        at = [shift + rng.gauss(0, shared) for _ in range(repeats)]
        controls = [math.exp(x + rng.gauss(0, sd)) for x in at]
        seconds = [math.exp(x + more + rng.gauss(0, sd)) for x in at]
        over = [s / c for s, c in zip(seconds, controls, strict=True)]
        return Sample(tuple(seconds), tuple(over), tuple(controls), "frozen")

    return [(one(box, slow), one(0.0, 0.0)) for _ in range(cells)]


def failures(trials, cells, least=0.0, **of):
    rng, any_, each = random.Random(7), 0, 0
    for _ in range(trials):
        found = changes_between(
            simulated(rng, cells, **of), 1 - 2 * 0.05 / cells, replace(ALONE, least=least)
        )
        told = sum(change.share.low > 0 and change.share.value > least for change in found)
        any_, each = any_ + (told > 0), each + told
    return any_ / trials, each / trials / cells


QUIET = [
    {"repeats": 3, "sd": 0.01},
    {"repeats": 5, "sd": 0.01},
    {"repeats": 3, "sd": 0.005, "shared": 0.01},
    {"repeats": 3, "sd": 0.01, "box": 0.03},
]


@pytest.mark.parametrize("noise", QUIET, ids=["three", "five", "box-of-each-repeat", "slow-box"])
def test_without_a_change_one_comparison_in_twenty_fails_at_most(noise):
    # Even where every change is of interest. Of 100 comparisons with a rate of 5 % at most 11 fail in 99.5 %.
    assert failures(100, 20, **noise)[0] <= 0.11


def test_a_lone_cell_whose_better_interval_is_chosen_fails_no_more():
    assert failures(1000, 1, repeats=3, sd=0.01, box=0.01)[0] <= 0.07
    assert failures(1000, 1, repeats=3, sd=0.01)[0] <= 0.07


def test_a_change_is_found_at_the_size_that_is_called_the_smallest():
    sides = simulated(random.Random(3), 20, 5, 0.01)
    smallest = sorted(change.smallest for change in changes_between(sides, 0.995, GateLimits()))[10]
    assert 0.02 < smallest < 0.05
    found = failures(40, 20, least=0.02, repeats=5, sd=0.01, slow=math.log1p(smallest))[1]
    assert 0.3 < found < 0.7
    assert failures(40, 20, least=0.02, repeats=5, sd=0.01, slow=3 * math.log1p(smallest))[1] > 0.99


def between_sessions(cells, repeats, session, shift=0.0, runs=60):
    """Return shares of comparisons in which any cell, and in which the first, is slower; only that has a shift."""
    chance, any_, first = random.Random(11), 0, 0
    for _ in range(runs):
        sides = []
        for place in range(cells):
            levels = chance.gauss(shift if place == 0 else 0.0, session), chance.gauss(0, session)
            times = [tuple(math.exp(chance.gauss(at, 0.01)) for _ in range(repeats)) for at in levels]
            sides.append(tuple(map(Sample, times)))
        found = changes_between(sides, 1 - 0.1 / cells, GateLimits())
        slower = [change.direction(0.02) > 0 for change in found]
        any_, first = any_ + any(slower), first + slower[0]
    return any_ / runs, first / runs


@pytest.mark.parametrize("session", [0.0, 0.01, 0.02])
def test_the_spread_between_runs_is_no_change(session):
    assert between_sessions(14, 5, session)[0] <= 0.1


def test_a_change_is_found_if_runs_have_no_spread():
    assert between_sessions(14, 5, 0.0, math.log(1.05))[1] >= 0.85


def test_slower_cells_without_controls_are_reported_as_possibly_the_machines_fault():
    slow = against(side("now", slower(1.1)), side("before", CALM))
    (note,) = slow.notes
    assert (
        note == f"{HERE}: without controls, a machine that was slower in the later run looks like slower code"
    )
    assert against(side("now", CALM), side("before", CALM)).notes == ()
    beside = [against(side("now", slower(1.1), controls=CALM), side("before", CALM, controls=CALM))]
    assert [each.notes for each in beside if only(each).change.paired] in ([()], [])


@pytest.mark.parametrize("cells", [3, 7])
def test_an_effect_of_a_run_on_single_cells_fails_no_gate_with_controls(cells):
    """1 % on each cell by itself fails at most 1 in 20."""
    assert compared(cells, 5, 0.01, 60, controls=True).failed <= 0.05
    assert compared(7, 5, 0.0, 20, slow=1, factor=1.1, controls=True).shown >= 0.9
