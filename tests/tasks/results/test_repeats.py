from dataclasses import replace

import pytest

from tasks.results.repeats import group, key, standing_grade
from tasks.results.speedup import refusal
from tasks.results.summaries import summarise
from tests.tasks.examples.records import failed, machine, record, repeats, timing
from workloads.harness.records.record import Grade, Verdict

WIDE = {"verdict": Verdict.IMPRECISE, "reasons": ("90 samples did not make the median precise",)}
BUSY = {"verdict": Verdict.NOISY, "reasons": ("others",), "probes": {"foreign_load_share": 0.5}}


def cell(*records, implausible=()):
    (one,) = group(records, (machine(),), {key(r): ("it can't be",) for r in implausible})
    return one


def test_a_wide_repeat_enters_the_number_and_widens_the_grade():
    one = cell(*repeats([1.0, 1.1]), record(1.3, repeat=2, **WIDE))
    assert one.compute_s == [1.0, 1.1, 1.3]
    assert (one.grade, one.verdict, refusal(one, one)) == (Grade.WIDE, Verdict.IMPRECISE, "")
    (summary,) = summarise([one], (machine(),))
    assert summary.grade is Grade.WIDE and summary.ok_repeats == 3 and summary.complete
    assert summary.compute_s.low < 1.0 and summary.compute_s.high > 1.3
    assert summary.reasons == WIDE["reasons"]


def test_a_busy_repeat_enters_only_where_quiet_ones_are_too_few():
    busy = record(1.5, repeat=2, **BUSY)
    assert cell(*repeats([1.0, 1.1]), busy).compute_s == [1.0, 1.1]
    assert cell(*repeats([1.0, 1.1]), busy).grade is Grade.SOUND
    lonely = cell(record(1.0), busy)
    assert lonely.compute_s == [1.0, 1.5] and lonely.busy and lonely.verdict is Verdict.NOISY


def test_a_repeat_whose_cpu_changed_its_speed_enters_beside_those_whose_did_not():
    restless = record(1.5, repeat=2, verdict=Verdict.NOISY, probes={"canary_drift": -0.3})
    one = cell(*repeats([1.0, 1.1]), restless)
    assert one.compute_s == [1.0, 1.1, 1.5] and one.restless and not one.busy


def test_a_refused_repeat_enters_nothing():
    one = cell(record(1.0, **WIDE), failed(Verdict.CRASHED, "signal 9", repeat=1))
    assert one.compute_s == [1.0] and one.grade is Grade.WIDE
    none = cell(failed(Verdict.CRASHED, "signal 9"))
    assert none.grade is Grade.REFUSED and "is crashed: signal 9" in refusal(none, none)


@pytest.mark.parametrize("made", [record(1.0), record(1.0, **WIDE)])
def test_an_implausible_repeat_is_refused_whatever_its_grade(made):
    one = cell(made, implausible=[made])
    assert (one.grade, one.verdict) == (Grade.REFUSED, Verdict.IMPOSSIBLE)
    assert standing_grade(made, {key(made): ("it can't be",)}) is Grade.REFUSED


def test_the_reason_beside_a_verdict_is_that_of_the_repeats_that_have_it():
    one = cell(record(1.0, **WIDE), record(1.1, repeat=1, **BUSY))
    assert (one.verdict, one.why) == (Verdict.NOISY, BUSY["reasons"])
    assert one.reasons == WIDE["reasons"] + BUSY["reasons"]
    (summary,) = summarise([one], (machine(),))
    assert (summary.why, summary.busy) == (BUSY["reasons"], True)


def test_the_gates_reason_comes_before_other_reasons_of_a_repeat():
    wide = record(1.0, **WIDE)
    one = cell(wide, implausible=[wide])
    assert (one.verdict, one.why) == (Verdict.IMPOSSIBLE, ("it can't be",))
    assert "is impossible: it can't be" in refusal(one, one)


def test_a_refused_cell_was_busy_if_others_used_the_machine():
    busy = record(1.0, verdict=Verdict.NOISY, probes={"foreign_load_share": 0.9})
    unsteady = replace(timing(1.0), steady=False, samples_s=(1.0, 1.5))
    restless = record(1.0, verdict=Verdict.NOISY, probes={"canary_drift": 0.3}, wall=unsteady)
    assert [(c.grade, c.busy) for c in map(cell, (busy, restless))] == [
        (Grade.REFUSED, True),
        (Grade.REFUSED, False),
    ]
