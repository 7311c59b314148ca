import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tasks.regressions.explain import (
    Clocked,
    Difference,
    clock_mhz,
    clocks,
    commits,
    differences,
    first_changed,
    last_before,
    machine,
    stack,
    target,
    uncontrolled,
    whole_targets,
)
from tasks.regressions.nightly_gate import confirm_suspects, screen
from tasks.regressions.panel import panel_of
from tasks.regressions.series import FreshRuns, Observation, Series, SeriesKey

START = datetime(2026, 6, 1, 2, 30, tzinfo=UTC)
NOISE = np.random.default_rng(7).normal(0, 0.01, (12, 60))
RUNS = np.linspace(-0.008, 0.008, 5)


def series(row, tonight=1.0, hardware="box", control=math.nan):
    """Return 60 nights of 0.1 s, the last times `tonight`; a control reads half of it."""
    factors = [1.0] * 59 + [tonight]
    nights = tuple(
        Observation(
            f"night-{i:03}",
            START + timedelta(days=i),
            0.1 * math.exp(NOISE[row, i]) * factor,
            None
            if math.isnan(control)
            else 0.05 * math.exp(NOISE[-1 - row, i]) * (control if i == 59 else 1.0),
        )
        for i, factor in enumerate(factors)
    )
    return Series(SeriesKey(hardware, f"case-{row}", "main"), nights)


def fresh(factor, control=math.nan):
    return FreshRuns(tuple(0.1 * factor * np.exp(RUNS)), tuple(0.05 * control * np.exp(RUNS)))


def night(*all_series, again):
    judged = screen(panel_of(all_series), ())
    return judged, confirm_suspects(judged, {all_series[row].key: runs for row, runs in again.items()})


def test_a_change_without_controls_is_reported_as_possibly_the_machines():
    _, (slow,) = night(series(0, 1.2), again={0: fresh(1.2)})
    assert "No control" in uncontrolled(slow, fresh(1.2))
    assert uncontrolled(slow, fresh(1.2, control=1.0)) == ""
    _, (cleared,) = night(series(0, 1.2), again={0: fresh(1.0)})
    assert uncontrolled(cleared, fresh(1.0)) == ""


def test_controls_that_moved_too_are_the_machine():
    slow = fresh(1.2, control=1.2)
    judged, (outcome,) = night(series(0, 1.2, control=1.0), again={0: slow})
    usual_s = math.exp(judged.before.control[0])
    sentence = machine(outcome, slow, usual_s)
    assert "slower than usual: the cause is the machine" in sentence and outcome.confirmed is None
    assert float(sentence.partition("are ")[2].partition(" %")[0]) == pytest.approx(20, abs=1.0)


def test_code_that_is_slow_on_a_slow_machine_is_confirmed():
    both = fresh(1.2 * 1.3, control=1.2)
    judged, (outcome,) = night(series(0, 1.5, control=1.0), again={0: both})
    sentence = machine(outcome, both, math.exp(judged.before.control[0]))
    left = float(sentence.partition("the case is ")[2].partition(" %")[0])
    assert outcome.confirmed and left == pytest.approx(30, abs=2.0)


def test_without_a_moved_control_the_machine_is_not_named():
    steady = fresh(1.2, control=1.0)
    judged, (outcome,) = night(series(0, 1.2, control=1.0), again={0: steady})
    assert outcome.confirmed and machine(outcome, steady, math.exp(judged.before.control[0])) == ""
    _, (without,) = night(series(0, 1.2), again={0: fresh(1.2)})
    assert machine(without, fresh(1.2), math.nan) == ""


def clocked(seconds, mhz, count=3):
    return [Clocked(seconds * (1 + i / 1000), mhz) for i in range(count)]


def test_a_change_that_is_gone_in_cycles_is_the_clock():
    slower = clocks(clocked(0.1, 1620.0), clocked(0.115, 1410.0))
    assert "1620 MHz before and 1410 MHz now, is the cause" in slower
    assert "0.1 % slower, in seconds 15.0 % slower" in slower
    faster = clocks(clocked(0.115, 1410.0), clocked(0.1, 1620.0))
    assert "is the cause" in faster and "in seconds 13.0 % faster" in faster


@pytest.mark.parametrize("clock_mhz", [(1620.0, 1615.0), (1620.0, 1500.0), (1410.0, 1620.0)])
def test_a_change_that_is_there_in_cycles_is_not_the_clock(clock_mhz):
    before, after = clock_mhz
    assert "is not the cause" in clocks(clocked(0.1, before), clocked(0.115, after))


def test_without_a_clock_nothing_is_reported():
    assert clocks(clocked(0.1, None), clocked(0.2, 1410.0)) == ""
    assert clocks(clocked(0.1, 1410.0), []) == ""
    assert clocks(clocked(0.1, 1410.0), clocked(0.2, 0.0)) == ""
    assert clocks(clocked(0.1, 1620.0), clocked(0.101, 1410.0)) == ""  # nothing has changed
    mixed = clocks([*clocked(0.1, 1620.0), Clocked(9.0, None)], clocked(0.115, 1410.0))
    assert "is the cause" in mixed


def test_the_clock_of_a_record_is_that_of_its_window():
    monitor = {"t_s": (0.0, 1.0, 2.0, 3.0, 4.0), "gpu_sm_clock_mhz": (300.0, 1400.0, 1410.0, 1420.0, 300.0)}
    window = {"window_start_s": 0.5, "window_end_s": 3.5}
    assert clock_mhz(monitor, window) == 1410.0
    assert clock_mhz(monitor, {"window_start_s": 5.0, "window_end_s": 6.0}) is None
    assert clock_mhz({"t_s": (0.0,), "cpu_percent": (99.0,)}, window) is None
    assert clock_mhz({}, {}) is None


def test_half_of_a_hardware_is_one_ticket_for_it():
    all_series = [series(row, 1.2 if row < 4 else 1.0) for row in range(6)]
    other = [series(row, 1.2 if row == 6 else 1.0, "other") for row in range(6, 8)]
    again = {row: fresh(1.2) for row in (0, 1, 2, 3, 6)}
    judged, outcomes = night(*all_series, *other, again=again)
    assert whole_targets(judged, outcomes) == {"box": tuple(one.key for one in all_series[:4])}


def test_a_few_or_opposite_changes_are_each_their_own():
    few = [series(row, 1.2 if row < 2 else 1.0) for row in range(3)]
    assert whole_targets(*night(*few, again={0: fresh(1.2), 1: fresh(1.2)})) == {}
    less_than_half = [series(row, 1.2 if row < 3 else 1.0) for row in range(7)]
    assert whole_targets(*night(*less_than_half, again={row: fresh(1.2) for row in range(3)})) == {}
    both_ways = [series(row, 1.2 if row < 2 else 0.8) for row in range(4)]
    again = {row: fresh(1.2 if row < 2 else 0.8) for row in range(4)}
    assert whole_targets(*night(*both_ways, again=again)) == {}
    cleared = [series(row, 1.2) for row in range(4)]
    assert whole_targets(*night(*cleared, again={row: fresh(1.0) for row in range(4)})) == {}


def test_suspects_without_fresh_runs_count_for_the_half_but_are_not_reported():
    all_series = [series(row, 1.2 if row < 6 else 1.0) for row in range(10)]
    found = whole_targets(*night(*all_series, again={row: fresh(1.2) for row in range(3)}))
    assert found == {"box": tuple(one.key for one in all_series[:3])}
    assert whole_targets(*night(*all_series, again={row: fresh(1.2) for row in range(2)})) == {}


def test_a_target_says_how_many_and_how_much():
    assert target("gke-l4", (0.1, 0.05, 0.2), 5) == (
        "3 of 5 series of gke-l4 changed in the same night, by the median 10.0 % slower "
        "(from 5.0 % slower to 20.0 % slower)."
    )


BEFORE = {
    "nvidia_driver": "550.54", "torch": "2.12.1", "cuda": "12.6", "python": "3.11.7", "numpy": "2.4.6",
    "kernel": "6.1.0-30", "hostname": "a", "variables": {"OMP_NUM_THREADS": "8", "NCCL_ALGO": "Ring"},
    "gpus": [{"name": "L4", "driver": "550.54", "vbios": "95.04"}],
}  # fmt: skip


def test_a_change_of_the_stack_is_reported_with_old_and_new_versions():
    now = BEFORE | {
        "torch": "2.13.0", "kernel": "6.1.0-32", "hostname": "b", "image": "sha256:1", "numpy": None,
        "variables": {"OMP_NUM_THREADS": "4", "NCCL_ALGO": "Ring", "LD_PRELOAD": "x.so"},
        "gpus": [{"name": "L4", "driver": "550.54", "vbios": "95.06"}, "no description"],
    }  # fmt: skip
    assert differences(BEFORE, now) == [
        Difference("torch", "2.12.1", "2.13.0"),
        Difference("kernel", "6.1.0-30", "6.1.0-32"),
        Difference("VBIOS", "95.04", "95.06"),
        Difference("LD_PRELOAD", "unset", "x.so"),
        Difference("OMP_NUM_THREADS", "8", "4"),
    ]
    assert "torch 2.12.1 → 2.13.0; kernel 6.1.0-30 → 6.1.0-32" in stack(BEFORE, now)
    without = {**BEFORE, "nvidia_driver": None}
    driver = [Difference("driver", "550.54", "560.1")]
    assert differences(without, {**without, "gpus": [{"driver": "560.1", "vbios": "95.04"}]}) == driver


def test_an_unknown_fact_is_no_difference():
    assert stack(BEFORE, BEFORE) == stack({}, BEFORE) == stack(BEFORE, {}) == ""
    assert stack(BEFORE, BEFORE | {"hostname": "another"}) == ""
    assert differences({"variables": None}, {"variables": {"A": "1"}}) == []


def test_commits_are_a_range_for_git():
    good, bad = "a" * 40, "b" * 40
    assert commits(good, bad) == "git log aaaaaaaaaaaa..bbbbbbbbbbbb"
    assert commits(good, f"{bad}-dirty").endswith("..bbbbbbbbbbbb, and uncommitted changes")
    for unknown in ("", "unknown", "main; rm -rf /", "ABCDEF0123"):
        assert commits(good, unknown) == commits(unknown, bad) == ""


def test_the_same_commit_is_not_the_code():
    same, dirty = commits("a" * 40, "a" * 40), commits("a" * 40, "a" * 40 + "-dirty")
    assert "same commit, aaaaaaaaaaaa" in same and "the cause is not the measured code" in same
    assert "uncommitted" in dirty and "the cause is not" not in dirty


def test_the_first_night_of_a_change_is_where_the_new_level_begins():
    rng = np.random.default_rng(3)
    off = []
    for _ in range(200):
        log_s = -2.3 + rng.normal(0, 0.02, 90) + 0.05 * (np.arange(90) >= 86)
        log_s[rng.random(90) < 0.1] = np.nan
        off.append(first_changed(log_s, -2.3, 0.05) - 86)
    assert np.mean(np.abs(off) <= 2) >= 0.9
    assert first_changed(np.array([0.0, 0.0, 0.1]), 0.0, 0.1) == 2
    assert first_changed(np.array([0.0, -0.1, np.nan, -0.1]), 0.0, -0.1) == 1


def test_the_last_night_before_has_a_number():
    nights = tuple(
        Observation(f"n{i}", START + timedelta(days=i), seconds)
        for i, seconds in enumerate([0.1, 0.1, None, 0.2])
    )
    one = Series(SeriesKey("box", "case", "main"), nights)
    assert last_before(one, "n3") is nights[1] and last_before(one, "n1") is nights[0]
    assert last_before(one, "n0") is None and last_before(one, "tonight") is nights[3]


def test_uncommitted_code_is_distinguished_by_the_hash_of_its_files():
    """Nights of one commit can have different code."""
    first, second = (f"{'a' * 40}-dirty-{files * 12}" for files in "bc")
    assert (
        commits(first, second)
        == "Uncommitted changes of the code: aaaaaaaa+cccccccc now, and aaaaaaaa+bbbbbbbb before."
    )
    assert "the cause is not the measured code" in commits(first, first)
    assert commits("a" * 40, second).endswith("aaaaaaaa+cccccccc now, and aaaaaaaa before.")
