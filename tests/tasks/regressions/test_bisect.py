import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.regressions.baseline import LEAST_CHANGE
from tasks.regressions.bisect import (
    MOST_ROUNDS,
    FirstBadVersion,
    NextMeasurement,
    NoCulprit,
    Round,
    VersionSearch,
    VersionState,
    most_measurements,
    next_step,
    paired,
    seconds_of_versions,
    version_states,
)
from tasks.regressions.change import CONFIRM_P, Sample, robust_change

PROCESSES = 15


def named(count):
    return tuple(f"v{place}" for place in range(count))


def sampled(chance, seconds, noise=0.02, processes=PROCESSES, box=None, reference="frozen"):
    """Return processes of a version; with `box`, each measurement's box is slower, next to controls."""
    slow = 1.0 if box is None else math.exp(chance.gauss(0, box))
    times = tuple(seconds * slow * math.exp(chance.gauss(0, noise)) for _ in range(processes))
    if box is None:
        return Sample(times)
    controls = tuple(2 * slow * math.exp(chance.gauss(0, noise)) for _ in range(processes))
    return Sample(times, tuple(t / c for t, c in zip(times, controls, strict=True)), controls, reference)


def searched(times, seed=0, broken=(), most=60, **noise):
    chance, search = random.Random(seed), VersionSearch(named(len(times)))
    for _ in range(most):
        step = next_step(search)
        if not isinstance(step, NextMeasurement):
            return step, search
        bad = step.version in broken
        one = Round(
            step.version,
            Sample(()) if bad else sampled(chance, times[step.version], **noise),
            "crashed: for a test" if bad else "",
            bad,
            step.check,
        )
        search = VersionSearch(search.versions, (*search.rounds, one))
    raise AssertionError(f"no end after {most} rounds")


def searched_in_turns(times, seed=0, broken=(), noise=0.01, box=0.02):
    """Search versions by pairs of processes; each pair has another speed of the box."""
    chance, search = random.Random(seed), VersionSearch(named(len(times)), in_turns=True)
    while isinstance(step := next_step(search), NextMeasurement):
        speeds = [math.exp(chance.gauss(0, box)) for _ in range(PROCESSES)]
        pair = [
            [times[version] * speed * math.exp(chance.gauss(0, noise)) for speed in speeds]
            for version in (step.partner, step.version)
        ]
        over = tuple(own / other for other, own in zip(*pair, strict=True))
        samples = Sample(tuple(pair[0])), Sample(tuple(pair[1]), over, tuple(pair[0]))
        bad = step.version in broken
        made = (
            Round(step.partner, samples[0], check=step.check),
            Round(step.version, Sample(()) if bad else samples[1], "crashed" * bad, bad, step.check),
        )
        search = replace(search, rounds=(*search.rounds, *made))
    return step, search


def stepped(count, first_bad, factor=1.1):
    return [1.0 if place < first_bad else factor for place in range(count)]


def fed(count, *rounds):
    """Return a search with exact rounds: (version, seconds) or (version, seconds, check)."""
    made = []
    for version, seconds, *check in rounds:
        times = tuple(seconds * (1 + 1e-3 * i) for i in range(-2, 3)) if seconds else ()
        reason = "" if seconds else "crashed: it does not start"
        made.append(Round(version, Sample(times), reason, not seconds, bool(check)))
    return VersionSearch(named(count), tuple(made))


@pytest.mark.parametrize(("versions", "most"), [(2, 4), (3, 5), (4, 6), (5, 6), (6, 7), (17, 8), (100, 11)])
def test_the_promised_number_of_rounds(versions, most):
    assert most_measurements(versions) == most


def test_a_step_at_each_position_is_found_within_the_promise():
    well = 0
    tries = [(count, at, seed) for count in (2, 3, 9, 16) for at in range(1, count) for seed in range(4)]
    for count, at, seed in tries:
        found, search = searched(stepped(count, at), 1000 * count + 10 * at + seed)
        promised = len(search.rounds) <= most_measurements(count)
        well += promised and isinstance(found, FirstBadVersion) and not found.doubt and found.first_bad == at
    assert well >= 0.95 * len(tries), f"{well} of {len(tries)}"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_clear_step_is_found_and_said_rightly(data):
    count = data.draw(st.integers(2, 40))
    at = data.draw(st.integers(1, count - 1))
    factor = data.draw(st.floats(1.05, 3.0)) ** data.draw(st.sampled_from((-1, 1)))
    found, search = searched(stepped(count, at, factor), data.draw(st.integers(0, 999)), noise=1e-3)
    assert isinstance(found, FirstBadVersion) and (found.last_good, found.first_bad) == (at - 1, at)
    assert found.doubt == "" and found.skipped == () and len(search.rounds) <= most_measurements(count)
    assert found.change.value == pytest.approx(factor - 1, abs=0.01 * factor)
    assert found.whole == pytest.approx(factor - 1, abs=0.01 * factor)
    assert found.part == pytest.approx(1, abs=0.15)


def test_measured_in_turns_drift_of_the_box_neither_looks_like_a_change_nor_hides_one():
    well, quiet = 0, 0
    tries = [(count, at, seed) for count in (2, 3, 9) for at in range(1, count) for seed in range(4)]
    for count, at, seed in tries:
        found, search = searched_in_turns(stepped(count, at, 1.05), 1000 * count + 10 * at + seed, box=0.1)
        measured = len(search.rounds) // 2
        well += measured <= most_measurements(count, in_turns=True) and found.first_bad == at
        assert found.doubt == "" and found.change.value == pytest.approx(0.05, abs=0.03)
    assert well >= 0.95 * len(tries), f"{well} of {len(tries)}"
    for seed in range(100):
        quiet += isinstance(searched_in_turns([1.0] * 9, seed, box=0.1)[0], NoCulprit)
    assert quiet >= 98


def test_in_turns_a_version_that_can_not_be_measured_is_skipped_and_an_end_is_reported():
    found, _ = searched_in_turns(stepped(9, 6), broken={4})
    assert isinstance(found, FirstBadVersion) and not found.doubt and found.first_bad == 6
    assert searched_in_turns(stepped(9, 4), broken={8})[0] == NoCulprit("v8 can't be measured: crashed")


def test_in_turns_a_change_that_vanishes_when_measured_again_is_not_confirmed():
    _, search = searched_in_turns([1.0, 1.1, 1.1], noise=0.001)
    assert [(each.version, each.check) for each in search.rounds[-2:]] == [(0, True), (1, True)]
    flat = replace(search.rounds[-1], sample=search.rounds[1].sample)
    gone = replace(flat, sample=replace(flat.sample, controlled=(1.0, 1.001, 0.999)))
    found = next_step(replace(search, rounds=(*search.rounds[:-1], gone)))
    assert (found.last_good, found.first_bad) == (0, 1) and "do not differ" in found.doubt
    lost = replace(flat, sample=Sample(()), reason="crashed: it does not start", broken=True)
    found = next_step(replace(search, rounds=(*search.rounds[:-1], lost)))
    assert found.doubt == "v1 could not be measured again: crashed: it does not start"


def test_without_a_step_nothing_is_found():
    results = [searched([1.0] * 9, seed) for seed in range(100)]
    quiet = [(found, search) for found, search in results if isinstance(found, NoCulprit)]
    assert len(quiet) >= 98
    found, search = quiet[0]
    assert len(search.rounds) == 2
    assert (
        found.reason.startswith("v0 and v8 do not differ by more than ")
        and " on this machine: " in found.reason
    )


def test_a_change_below_the_least_relevant_size_is_no_culprit():
    found, _ = searched(stepped(9, 4, 1.015), noise=1e-4)
    assert isinstance(found, NoCulprit) and "by more than 2.0 %" in found.reason and "+1.5 %" in found.reason


def test_unclear_versions_are_measured_again_and_then_skipped():
    search = fed(3, (0, 1.0), (2, 1.03), (1, math.sqrt(1.03)))
    assert version_states(search) == [
        VersionState.GOOD,
        VersionState.UNCLEAR,
        VersionState.BAD,
    ] and next_step(search) == NextMeasurement(1)
    search = fed(3, (0, 1.0), (2, 1.03), *[(1, math.sqrt(1.03))] * MOST_ROUNDS)
    assert version_states(search)[1] is VersionState.SKIPPED and next_step(search) == NextMeasurement(
        0, check=True
    )
    search = VersionSearch(search.versions, (*search.rounds, *fed(3, (0, 1.0, True), (2, 1.03, True)).rounds))
    found = next_step(search)
    assert (found.last_good, found.first_bad, found.skipped, found.doubt) == (0, 2, (1,), "")


def test_an_unclear_version_that_becomes_clear_is_taken():
    search = fed(3, (0, 1.0), (2, 1.03), (1, math.sqrt(1.03)), (1, 1.0), (1, 1.0))
    assert version_states(search)[1] is VersionState.GOOD and next_step(search) == NextMeasurement(
        1, check=True
    )


def test_a_version_that_can_not_be_measured_is_skipped_for_its_neighbour():
    search = fed(9, (0, 1.0), (8, 1.2), (4, None))
    assert next_step(search) == NextMeasurement(3) and search.reason(4) == "crashed: it does not start"
    assert next_step(fed(9, (0, 1.0), (8, 1.2), (4, None), (3, None))) == NextMeasurement(5)


@pytest.mark.parametrize("at", range(2, 8))
def test_the_step_is_found_around_versions_that_can_not_be_measured(at):
    broken = {4, 5}
    found, _ = searched(stepped(10, at), broken=broken)
    assert isinstance(found, FirstBadVersion) and not found.doubt
    assert found.last_good == max(place for place in range(at) if place not in broken)
    assert found.first_bad == min(place for place in range(at, 10) if place not in broken)
    assert {*found.skipped} == {*range(found.last_good + 1, found.first_bad)} <= broken


@pytest.mark.parametrize("end", [0, 8])
def test_an_end_that_can_not_be_measured_is_reported(end):
    found, search = searched(stepped(9, 4), broken={end})
    assert found == NoCulprit(f"v{end} can't be measured: crashed: for a test") and len(search.rounds) <= 2


def test_a_busy_machine_is_asked_again_and_not_for_ever():
    noisy = Round(0, Sample((1.0, 1.0)), "noisy: another process")
    search = VersionSearch(named(3), (noisy,) * (MOST_ROUNDS - 1))
    assert next_step(search) == NextMeasurement(0) and version_states(search)[0] is VersionState.UNCLEAR
    search = VersionSearch(named(3), (noisy,) * MOST_ROUNDS)
    assert next_step(search) == NoCulprit("v0 can't be measured: noisy: another process")


def test_a_difference_that_is_gone_when_measured_again_is_not_confirmed():
    rounds = [(0, 1.0), (2, 1.1), (1, 1.1), (0, 1.0, True)]
    assert next_step(fed(3, *rounds)) == NextMeasurement(1, check=True)
    found = next_step(fed(3, *rounds, (1, 1.0, True)))
    assert (found.last_good, found.first_bad) == (0, 1) and "do not differ" in found.doubt
    assert next_step(fed(3, *rounds, (1, 0.9, True))).doubt
    found = next_step(fed(3, *rounds, (1, None, True)))
    assert found.doubt == "v1 could not be measured again: crashed: it does not start"
    assert found.change.value == pytest.approx(0.1, abs=1e-3)


def test_of_two_steps_the_larger_is_found_and_the_rest_is_reported():
    times = [1.0, 1.0, 1.0, 1.05, 1.05, 1.05, 1.05, 1.2, 1.2]
    found, _ = searched(times, noise=0.005)
    assert (found.last_good, found.first_bad) == (6, 7) and not found.doubt
    assert found.change.value == pytest.approx(1.2 / 1.05 - 1, abs=0.01)
    assert found.part == pytest.approx(math.log(1.2 / 1.05) / math.log(1.2), abs=0.05)
    assert found.before == pytest.approx(0.05, abs=0.01) and found.after == pytest.approx(0, abs=0.01)


def test_of_many_steps_the_one_that_is_found_says_that_it_is_a_small_part():
    times = [1.1**place for place in range(6)]
    found, _ = searched(times, noise=0.002)
    assert found.first_bad - found.last_good == 1 and found.part == pytest.approx(0.2, abs=0.02)
    missing = (1 + found.before) * (1 + found.change.value) * (1 + found.after)
    assert missing == pytest.approx(1.1**5, rel=0.01)


def test_a_level_of_its_own_in_the_middle_counts_as_bad():
    search = fed(5, (0, 1.0), (4, 1.21), (2, 1.1))
    assert version_states(search)[2] is VersionState.BAD and next_step(search) == NextMeasurement(1)


def test_controls_tell_slow_boxes_from_slow_versions():
    well = 0
    for seed in range(20):
        found, search = searched(stepped(9, 4), seed, noise=0.01, box=0.1)
        well += (
            isinstance(found, FirstBadVersion) and found.first_bad == 4 and not found.doubt and paired(search)
        )
    assert well >= 18
    assert all(isinstance(searched([1.0] * 9, seed, noise=0.01, box=0.1)[0], NoCulprit) for seed in range(20))


def test_controls_count_only_where_they_help_and_all_are_of_one_reference():
    chance = random.Random(1)
    helpful = [Round(v, sampled(chance, 1.0, 0.01, box=0.1)) for v in (0, 1)]
    assert paired(VersionSearch(named(2), tuple(helpful)))
    other = Round(1, sampled(chance, 1.0, 0.01, box=0.1, reference="another"))
    assert not paired(VersionSearch(named(2), (helpful[0], other)))
    assert not paired(VersionSearch(named(2), (helpful[0], Round(1, sampled(chance, 1.0)))))
    idle = [Round(v, sampled(random.Random(9), 1.0, 0.01, box=0.0)) for v in (0, 1)]
    assert not paired(VersionSearch(named(2), tuple(idle)))


def test_a_faster_version_is_found_too():
    found, _ = searched(stepped(9, 5, 0.9))
    assert found.first_bad == 5 and found.change.value == pytest.approx(-0.1, abs=0.02)


def test_levels_are_in_seconds():
    search = VersionSearch(
        named(2), (Round(0, Sample((1.0, 2.0, 4.0), controls=(3.0, 3.0, 3.0))), Round(1, Sample(())))
    )
    assert seconds_of_versions(search) == {0: (pytest.approx(2.0), pytest.approx(3.0)), 1: (None, None)}


@pytest.mark.parametrize("processes", [3, 5, 15])
def test_chance_alone_is_rarely_confirmed(processes):
    chance = random.Random(processes)
    wrong = 0
    for _ in range(1500):
        one, other = ([chance.gauss(0, 0.02) for _ in range(processes)] for _ in range(2))
        wrong += robust_change(one, other, CONFIRM_P).direction() != 0
    assert wrong <= 9  # at 0.17 % the chance of more is 0.01 %


def test_one_outlier_of_fifteen_neither_hides_nor_makes_a_step():
    quiet = [0.01 * (i % 5 - 2) for i in range(15)]
    astray = [*quiet[:-1], 0.5]
    for now, before in ((astray, quiet), (quiet, astray)):
        assert robust_change(now, before, CONFIRM_P).direction(LEAST_CHANGE) == 0
    slower = [0.05 + value for value in astray]
    assert robust_change(slower, quiet, CONFIRM_P).direction(LEAST_CHANGE) == 1


def rounds_apart(effect, searches=150):
    """Return the share of searches without change that confirm one, with an effect by round."""
    told = 0
    for seed in range(searches):
        chance, search = random.Random(seed), VersionSearch(named(9))
        while isinstance(step := next_step(search), NextMeasurement):
            sample = sampled(chance, math.exp(chance.gauss(0, effect)), noise=0.01)
            search = VersionSearch(
                search.versions, (*search.rounds, Round(step.version, sample, check=step.check))
            )
        told += isinstance(step, FirstBadVersion) and not step.doubt
    return told / searches


def test_rounds_that_differ_make_no_version_the_culprit():
    """Such rounds are noticed, and require two checks."""
    assert rounds_apart(0.02) <= 0.06


def test_rounds_that_differ_are_checked_twice_in_turns():
    same = [(0, 1.0), (1, 1.05), (0, 1.0, True), (1, 1.05, True)]
    assert isinstance(next_step(fed(2, *same)), FirstBadVersion)
    apart = [*same[:3], (1, 1.09, True)]
    assert next_step(fed(2, *apart)) == NextMeasurement(1, check=True)
    once_more = [*apart, (1, 1.07, True)]
    assert next_step(fed(2, *once_more)) == NextMeasurement(0, check=True)
    found = next_step(fed(2, *once_more, (0, 1.0, True)))
    assert isinstance(found, FirstBadVersion) and not found.doubt
    found = next_step(fed(2, *apart, (1, 1.0, True), (0, 1.0, True)))
    assert isinstance(found, FirstBadVersion) and found.doubt
