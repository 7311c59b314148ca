"""The grades of records in the run gate: a machine in a bad state is no slower code, and loses no cell."""

from tasks.regressions.run_gate import CellStatus
from tests.tasks.regressions.test_run_gate import CALM, against, only, side, slower
from workloads.harness.records.record import Verdict

WIDE = {"verdict": Verdict.IMPRECISE, "reasons": ("90 samples did not make the median precise",)}
BUSY = {"verdict": Verdict.NOISY, "probes": {"foreign_load_share": 0.5}, "reasons": ("others were there",)}


def test_a_cell_that_became_wide_is_not_lost_and_its_interval_decides():
    same = against(side("now", CALM, **WIDE), side("before", CALM))
    assert only(same).status is CellStatus.UNCHANGED and same.exit_code == 0
    slow = against(side("now", slower(1.3), **WIDE), side("before", CALM, **WIDE))
    assert only(slow).status is CellStatus.SLOWER


def test_a_difference_beside_other_load_is_undecided_unless_controls_tell():
    loaded = against(side("now", slower(1.5), **BUSY), side("before", CALM))
    assert only(loaded).status is CellStatus.UNDECIDED and loaded.exit_code == 3
    assert "others used the machine" in only(loaded).why
    controls = (2.0, 2.01, 1.99)
    beside = against(
        side("now", slower(1.5), controls=controls, **BUSY), side("before", CALM, controls=controls)
    )
    assert only(beside).change.paired and only(beside).status is CellStatus.SLOWER


def test_the_state_of_the_machine_loses_no_cell():
    for verdict in (Verdict.THROTTLED, Verdict.PREEMPTED, Verdict.SHARED):
        found = against(side("now", CALM, verdict=verdict, reasons=("so it was",)), side("before", CALM))
        assert only(found).status is CellStatus.UNDECIDED and found.exit_code == 3
        assert only(found).why == f"it counted, and is {verdict}: so it was"
    beyond = BUSY | {"probes": {"foreign_load_share": 0.9}}
    assert only(against(side("now", CALM, **beyond), side("before", CALM))).status is CellStatus.UNDECIDED
