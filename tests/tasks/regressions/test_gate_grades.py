from dataclasses import replace

import pytest

from tasks.regressions.run_gate import CellStatus
from tests.tasks.examples.records import failed
from tests.tasks.regressions.test_run_gate import CALM, CELL, HERE, against, only, side, slower
from workloads.harness.records.record import Verdict

WIDE = {"verdict": Verdict.IMPRECISE, "reasons": ("90 samples did not make the median precise",)}
BUSY = {"verdict": Verdict.NOISY, "probes": {"foreign_load_share": 0.5}, "reasons": ("others were there",)}


def test_a_cell_that_became_wide_is_not_lost_and_its_interval_decides():
    same = against(side("now", CALM, **WIDE), side("before", CALM))
    assert only(same).status is CellStatus.UNCHANGED and same.exit_code() == 0
    slow = against(side("now", slower(1.3), **WIDE), side("before", CALM, **WIDE))
    assert only(slow).status is CellStatus.SLOWER


def test_a_difference_under_other_load_is_undecided_unless_controls_tell():
    loaded = against(side("now", slower(1.5), **BUSY), side("before", CALM))
    assert only(loaded).status is CellStatus.UNDECIDED and loaded.exit_code() == 3
    assert "other programs used the machine" in only(loaded).why
    controls = (2.0, 2.01, 1.99)
    beside = against(
        side("now", slower(1.5), controls=controls, **BUSY), side("before", CALM, controls=controls)
    )
    assert only(beside).change.paired and only(beside).status is CellStatus.SLOWER


def test_the_state_of_the_machine_loses_no_cell():
    for verdict in (Verdict.THROTTLED, Verdict.PREEMPTED, Verdict.SHARED):
        found = against(side("now", CALM, verdict=verdict, reasons=("so it was",)), side("before", CALM))
        assert only(found).status is CellStatus.UNDECIDED and found.exit_code() == 3
        assert only(found).why.endswith(f"{verdict}: so it was")
    beyond = BUSY | {"probes": {"foreign_load_share": 0.9}}
    assert only(against(side("now", CALM, **beyond), side("before", CALM))).status is CellStatus.UNDECIDED


CONTROLS = (2.0, 2.01, 1.99)


@pytest.mark.parametrize(
    ("now", "before"), [((), BUSY), (BUSY, ()), (BUSY, BUSY)], ids=["before", "now", "both"]
)
def test_under_other_load_an_unchanged_cell_is_undecided(now, before):
    found = against(side("now", CALM, **dict(now)), side("before", CALM, **dict(before)))
    assert only(found).status is CellStatus.UNDECIDED and found.exit_code() == 3
    runs = " and ".join(name for name, made in (("now", now), ("before", before)) if made)
    assert f"used the machine in {runs}" in only(found).why
    (note,) = found.notes
    assert note.startswith(
        f"{HERE}: other programs used it during 1 cell, so these are undecided: measure both runs again"
    )


def test_a_control_under_load_shows_whether_the_load_hid_a_change():
    """Before, load took half as long again, of the control, too; now the code does."""
    loaded = side("before", CALM, controls=slower(1.5, times=CONTROLS), **BUSY)
    hidden = only(against(side("now", CALM, controls=CONTROLS), loaded))
    assert hidden.status is CellStatus.SLOWER and hidden.change.share.value == pytest.approx(0.5, abs=0.01)
    quiet = against(side("now", CALM, controls=CONTROLS, **BUSY), side("before", CALM, controls=CONTROLS))
    assert only(quiet).status is CellStatus.UNCHANGED and only(quiet).change.paired and not quiet.notes


def broken(name, count, verdict=Verdict.WRONG):
    whole = side(name, (*CALM, 1.002, 0.999))
    bad = [replace(failed(verdict, "it differs", repeat=number), run=name) for number in range(count)]
    return replace(whole, records=(*bad, *whole.records[count:]))


@pytest.mark.parametrize(
    ("count", "verdict", "why"),
    [
        (3, Verdict.WRONG, "3 of its 5 repeats are wrong: it differs"),
        (1, Verdict.OUT_OF_MEMORY, "1 of its 5 repeats is out of memory: it differs"),
        (4, Verdict.CRASHED, "4 of its 5 repeats are crashed: it differs"),
    ],
)
def test_a_cell_of_which_some_repeats_are_broken_is_lost(count, verdict, why):
    found = against(broken("now", count, verdict), broken("before", 0))
    assert (only(found).status, only(found).why, found.exit_code()) == (CellStatus.LOST, why, 1)


def test_a_cell_that_was_broken_in_part_before_is_decided_by_the_rest_and_it_is_reported():
    found = against(broken("now", 3), broken("before", 2))
    assert only(found).status is CellStatus.UNCHANGED and found.exit_code() == 0
    assert found.notes == (f"{CELL.id}: 3 of its 5 repeats are wrong: it differs; before, it was 2",)


def test_repeats_that_the_machine_spoilt_lose_no_cell():
    found = against(broken("now", 3, Verdict.THROTTLED), broken("before", 0))
    assert only(found).status is CellStatus.UNCHANGED and not found.notes
    mended = against(broken("now", 0), broken("before", 3))
    assert only(mended).status is CellStatus.UNCHANGED and not mended.notes


def test_a_repeat_that_can_not_be_true_loses_its_cell():
    now = broken("now", 0)
    now = replace(now, records=(replace(now.records[0], wall_s=-1.0), *now.records[1:]))
    assert only(against(now, broken("before", 0))).why.startswith("1 of its 5 repeats is impossible: ")
