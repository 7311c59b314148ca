from dataclasses import replace

import pytest

from tests.tasks.examples.records import record, timing
from workloads.harness.records.grade import (
    counts,
    drifts,
    grade_of,
    is_busy,
    is_restless,
)
from workloads.harness.records.record import COUNTING, OF_THE_MACHINE, RULES, Grade, Verdict

NOISY = {"verdict": Verdict.NOISY, "probes": {"foreign_load_share": 0.5, "foreign_cores": 1.0}}


def test_every_verdict_has_a_rule_and_only_ok_is_sound():
    assert set(RULES) == set(Verdict)
    assert [verdict for verdict in Verdict if verdict.grade is Grade.SOUND] == [Verdict.OK]
    wide = {verdict for verdict in Verdict if verdict.grade is Grade.WIDE}
    assert wide == {Verdict.IMPRECISE, Verdict.UNSTEADY, Verdict.NOISY} < OF_THE_MACHINE


def test_the_rules_of_a_verdict_agree_with_each_other():
    for verdict, rule in RULES.items():
        assert verdict not in COUNTING or not rule.is_failure
        assert not rule.is_worth_retry or (rule.is_failure and rule.is_of_machine), verdict
        assert not rule.is_inapplicable or (rule.is_failure and not rule.is_of_machine), verdict


def test_lost_lanes_are_measured_again_and_unsupported_cases_say_nothing_about_a_machine():
    assert {v for v, rule in RULES.items() if rule.is_worth_retry} == {Verdict.CAPACITY, Verdict.PREEMPTED}
    assert {v for v, rule in RULES.items() if rule.is_inapplicable} == {Verdict.SKIPPED, Verdict.UNSUPPORTED}


def test_an_imprecise_record_is_wide():
    assert grade_of(record(1.0)) is Grade.SOUND
    imprecise = record(1.0, verdict=Verdict.IMPRECISE)
    assert grade_of(imprecise) is Grade.WIDE and counts(imprecise)


@pytest.mark.parametrize("verdict", sorted(set(Verdict) - COUNTING))
def test_a_wrong_record_or_a_throttled_machine_is_refused(verdict):
    assert grade_of(record(1.0, verdict=verdict)) is Grade.REFUSED
    assert not counts(record(1.0, verdict=verdict))


def test_a_record_without_a_time_is_refused():
    assert grade_of(record(1.0, verdict=Verdict.IMPRECISE, wall=None)) is Grade.REFUSED


@pytest.mark.parametrize(
    ("probe", "within", "beyond"),
    [
        ("foreign_load_share", 0.5, 0.6),
        ("steal_share", 0.05, 0.2),
        ("cgroup_throttled_s", 0.5, 5.0),
    ],
)
def test_a_busy_machine_is_wide_within_bounds(probe, within, beyond):
    def graded(value):
        return grade_of(record(1.0, verdict=Verdict.NOISY, probes={probe: value}))

    assert (graded(within), graded(beyond)) == (Grade.WIDE, Grade.REFUSED)
    assert is_busy(record(1.0, **NOISY)) and not is_busy(record(1.0, verdict=Verdict.IMPRECISE))


@pytest.mark.parametrize("drift", [-0.4, 0.08, 0.9])
def test_a_cpu_whose_speed_comes_and_goes_is_wide_and_restless(drift):
    noisy = record(1.0, verdict=Verdict.NOISY, probes={"canary_drift": drift, "foreign_cores": 0.1})
    assert grade_of(noisy) is Grade.WIDE and is_restless(noisy) and not is_busy(noisy)


@pytest.mark.parametrize("load", [{"foreign_cores": 0.5}, {"steal_share": 0.02}, {"cgroup_throttled_s": 0.5}])
def test_a_cpu_whose_speed_changes_beside_others_is_busy(load):
    noisy = record(1.0, verdict=Verdict.NOISY, probes={"canary_drift": 0.4} | load)
    assert is_busy(noisy) and not is_restless(noisy)


def unsteady(samples_s, warmup_s=()):
    wall = replace(timing(1.0), steady=False, samples_s=tuple(samples_s), warmup_s=tuple(warmup_s))
    return record(1.0, verdict=Verdict.UNSTEADY, wall=wall)


NOISE = [1.00, 0.97, 1.04, 1.01, 0.96, 1.03, 0.99, 1.02]


def test_noise_that_never_settled_is_wide_and_times_on_their_way_are_refused():
    assert grade_of(unsteady(NOISE * 4, NOISE * 4)) is Grade.WIDE
    falling = [1.2 - 0.001 * i for i in range(64)]
    assert grade_of(unsteady(falling[32:], falling[:32])) is Grade.REFUSED
    settled = unsteady([1.0] * 32, [1.004] * 32)  # nothing moves within the samples
    assert grade_of(settled) is Grade.REFUSED


def test_few_samples_are_on_their_way_when_they_differ_by_five_percent():
    assert not drifts(unsteady([1.0, 1.04]).wall)
    assert drifts(unsteady([1.0, 1.06]).wall)
    assert not drifts(unsteady([1.0]).wall)


@pytest.mark.parametrize(("verdict", "others"), [(Verdict.UNSTEADY, {}), (Verdict.NOISY, NOISY["probes"])])
def test_a_gpus_clock_that_moves_is_wide_until_the_times_move_with_it(verdict, others):
    """A clock that drops late in each repeat is the same error in all."""

    def graded(samples_s):
        times = replace(timing(1.0), steady=True, samples_s=tuple(samples_s))
        probes = {"sm_clock_drift": -0.03} | others
        return grade_of(record(1.0, verdict=verdict, device_time=times, probes=probes))

    dropped = [*[1.00, 1.001, 0.999] * 8, *[1.03, 1.031, 1.029] * 8]
    assert graded(dropped) is Grade.REFUSED
    assert graded(NOISE * 4) is Grade.WIDE, "a step that waits for memory has the same times"
