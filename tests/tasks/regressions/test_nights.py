import math
import shutil
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from tasks.errors import GridbenchError
from tasks.planning.channel import Night
from tasks.planning.plan import PlannedSkip
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.series import MISSING
from tasks.regressions.series_reader import confirmation, confirmations, fresh_runs, read_others, series_of
from tests.tasks.examples.nights import (
    FIRST,
    HERE,
    NEW_DRIVER,
    a_night,
    by_case,
    keep,
    measured,
    one_sentence,
    plan_of,
    read,
    run_name,
)
from tests.tasks.examples.records import IMAGES, MATMUL, timing
from workloads.harness.probes.machine import machine_id
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict


def names(nights):
    return [night.plan.run for night in nights]


def test_a_night_is_the_median_of_its_ok_repeats_with_all_that_a_gate_needs(tmp_path):
    for number, seconds in enumerate((1.0, 1.1, 0.9)):
        a_night(tmp_path, number, seconds)
    found, odd = by_case(tmp_path)
    assert odd == [] and {*found} == {MATMUL.id, IMAGES.id}
    series = found[MATMUL.id]
    assert series.key.id == f"{HERE}/{MATMUL.id}@main" and series.planned
    assert [night.run for night in series.nights] == [run_name(number) for number in range(3)]
    assert [night.at for night in series.nights] == [FIRST + timedelta(days=number) for number in range(3)]
    assert np.allclose([night.seconds for night in series.nights], np.array([1, 1.1, 0.9]) * math.sqrt(1.02))
    first = series.nights[0]
    assert first.control_s == pytest.approx(2.0) and (first.verdict, first.repeats) == ("ok", 2)
    assert (first.commit, first.hostname, first.reference) == ("c" * 40, "box-1", "frozen")
    assert len(first.machine_id) == 12 and series.segment_start == 0


def test_another_driver_starts_a_segment(tmp_path):
    a_night(tmp_path, 0)
    plan = plan_of(1)
    keep(tmp_path, plan, measured(plan, environment=NEW_DRIVER))
    series = by_case(tmp_path)[0][MATMUL.id]
    assert series.changes == {1: ("machine",)} and series.nights[1].machine_id == machine_id(NEW_DRIVER)


def test_repeats_and_controls_that_are_not_refused_count_and_the_commonest_verdict_is_reported(tmp_path):
    plan = plan_of(0, repeats=3)
    records = measured(plan)
    hot = Control("frozen", "throttled", (), 9.0)
    for place, one in enumerate(records):
        if one.case == IMAGES:  # two throttled, one crashed
            verdict = Verdict.CRASHED if one.repeat == 0 else Verdict.THROTTLED
            records[place] = replace(one, verdict=verdict)
        elif one.repeat:  # one counts without its control, one not at all
            verdict = Verdict.OK if one.repeat == 1 else Verdict.THROTTLED
            records[place] = replace(one, verdict=verdict, control=hot)
    keep(tmp_path, plan, records)
    found, odd = by_case(tmp_path)
    (ok,), (not_ok,) = found[MATMUL.id].nights, found[IMAGES.id].nights
    assert odd == [] and (ok.verdict, ok.repeats) == ("ok", 2)
    assert ok.seconds == pytest.approx(math.sqrt(1.02)) and ok.control_s == pytest.approx(2.0)
    assert ok.variance == pytest.approx(math.log(1.02) ** 2 / 2) and ok.control_variance is None
    assert (not_ok.seconds, not_ok.control_s, not_ok.verdict, not_ok.repeats) == (None, None, "throttled", 0)
    assert not_ok.machine_id == ok.machine_id


def test_a_wide_repeat_counts_and_a_noisy_one_beside_a_control(tmp_path):
    verdicts = [Verdict.IMPRECISE, Verdict.UNSTEADY, Verdict.NOISY]
    for name, control_s, count in (("beside", 2.0, 3), ("alone", None, 2)):
        plan = plan_of(0, repeats=3, cases=[MATMUL])
        records = measured(plan, control_s=control_s)
        records = [replace(one, verdict=v) for one, v in zip(records, verdicts, strict=True)]
        keep(tmp_path / name, plan, records)
        (night,) = by_case(tmp_path / name)[0][MATMUL.id].nights
        assert night.ok and night.repeats == count and night.verdict in [*verdicts]


def test_a_repeat_whose_cpu_changed_its_speed_counts_without_a_control(tmp_path):
    """Its spread has that; under load it would look like slower code."""
    for table in (True, False):
        plan = plan_of(0, repeats=3, cases=[MATMUL, IMAGES])
        records = [
            replace(one, verdict=Verdict.NOISY, probes={"canary_drift": -0.3})
            for one in measured(plan, control_s=None)
        ]
        load = {"canary_drift": -0.3, "foreign_cores": 0.9}
        records = [replace(one, probes=load) if one.case == IMAGES else one for one in records]
        keep(tmp_path / str(table), plan, records, table)
        found, _ = by_case(tmp_path / str(table))
        (restless,), (busy,) = found[MATMUL.id].nights, found[IMAGES.id].nights
        assert restless.ok and (restless.repeats, restless.verdict) == (3, "noisy"), table
        assert not busy.ok and (busy.repeats, busy.verdict) == (0, "noisy"), table


def test_a_table_that_does_not_say_why_a_repeat_is_noisy_is_read_as_it_was(tmp_path):
    plan = plan_of(0, cases=[MATMUL])
    made = [
        replace(one, verdict=Verdict.NOISY, probes={"canary_drift": -0.3})
        for one in measured(plan, control_s=None)
    ]
    table = keep(tmp_path, plan, made).folder / "results.parquet"
    pd.read_parquet(table).drop(columns="restless").to_parquet(table, index=False)
    a_night(tmp_path, 1, cases=[MATMUL])
    found, odd = by_case(tmp_path)
    assert odd == [] and [night.ok for night in found[MATMUL.id].nights] == [False, True]


def test_a_time_that_its_samples_contradict_counts_no_more_before_the_table_than_in_it(tmp_path):
    for name, table in (("whole", True), ("cut", False)):
        plan = plan_of(0, cases=[MATMUL])
        records = [replace(one, wall=replace(timing(1.0), median_s=0.5)) for one in measured(plan)]
        keep(tmp_path / name, plan, records, table)
        (night,) = by_case(tmp_path / name)[0][MATMUL.id].nights
        assert (night.seconds, night.verdict) == (None, "impossible"), name


def test_two_nights_at_once_both_count_and_no_night_counts_twice(tmp_path):
    a_night(tmp_path, 0, 1.0)
    a_night(tmp_path, 1, 1.1, created_at=FIRST.isoformat())
    found, odd = by_case(tmp_path)
    one_sentence(odd, run_name(0), run_name(1), "at the same time", "both are used")
    assert [night.run for night in found[MATMUL.id].nights] == [run_name(0), run_name(1)]
    for copy in ("00-a-copy", "z-a-copy"):
        shutil.copytree(tmp_path / run_name(1), tmp_path / copy)
    nights, odd = read(tmp_path)
    assert [night.folder.name for night in nights] == [run_name(0), run_name(1)]
    assert [
        sentence for sentence in odd if "a second folder of run" in sentence and "copy" in sentence
    ] == odd[:2]


def test_a_clock_that_jumped_is_reported_and_nothing_is_lost(tmp_path):
    a_night(tmp_path, 0)
    a_night(tmp_path, 1, created_at=(FIRST - timedelta(days=2)).isoformat())
    nights, odd = read(tmp_path)
    one_sentence(odd, run_name(0), run_name(1), "another order", "a clock jumped")
    assert names(nights) == [run_name(1), run_name(0)]
    a_night(tmp_path, 2, created_at="2031-01-01T02:00:00+00:00")
    a_night(tmp_path, 3, created_at="1970-01-01T00:00:09+00:00")
    nights, odd = read(tmp_path)
    assert names(nights) == [run_name(number) for number in (3, 1, 0, 2)]
    assert len([sentence for sentence in odd if "a clock was wrong" in sentence]) == 2
    assert len(by_case(tmp_path)[0][MATMUL.id].nights) == 4


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_an_invalid_time_in_utc_is_a_sentence(tmp_path, at):
    a_night(tmp_path, 0)
    a_night(tmp_path, 1, created_at=at)
    nights, odd = read(tmp_path)
    one_sentence(odd, "plan.json", f"created_at {at} is not a time in UTC")
    assert names(nights) == [run_name(0)]


def test_a_renamed_case_ends_and_nothing_of_it_is_missing(tmp_path):
    renamed = Case.of("matrix_product", {"n": 5000})
    for number in range(2):
        a_night(tmp_path, number)
    for number in range(2, 4):
        a_night(tmp_path, number, cases=[renamed, IMAGES])
    found, _ = by_case(tmp_path)
    assert [len(found[case.id].nights) for case in (MATMUL, renamed, IMAGES)] == [2, 2, 4]
    assert [found[case.id].planned for case in (MATMUL, renamed, IMAGES)] == [False, True, True]
    assert all(night.ok for series in found.values() for night in series.nights)


def test_a_cell_that_was_planned_and_has_no_record_is_missing(tmp_path):
    a_night(tmp_path, 0)
    plan = plan_of(1)
    keep(tmp_path, plan, [one for one in measured(plan) if one.case == IMAGES])
    keep(tmp_path, plan_of(2), [], table=False)
    found, odd = by_case(tmp_path)
    one_sentence(odd, f"run {run_name(2)} has no results.parquet", "it has no record")
    assert [night.verdict for night in found[MATMUL.id].nights] == ["ok", MISSING, MISSING]
    assert [night.verdict for night in found[IMAGES.id].nights] == ["ok", "ok", MISSING]
    assert found[MATMUL.id].planned and not found[MATMUL.id].nights[2].ok


def test_a_planned_skip_is_not_expected_in_a_night(tmp_path):
    plan = make_plan(RunRequest(suite="quick", hardware=[HERE], repeats=1, seed=1, night=Night()))
    skip = PlannedSkip(hardware=HERE, case=plan.cases[0], reason="too large")
    plan = plan_of(0, cases=[planned.case for planned in plan.cases], skips=(skip,))
    keep(tmp_path, plan, [])
    assert plan.cases[0].case.id not in by_case(tmp_path)[0]


def test_two_machines_can_have_nights_of_their_own(tmp_path):
    a_night(tmp_path, 0, hardware=["local-cpu-1"])
    a_night(tmp_path, 1, hardware=[HERE])
    nights, _ = read(tmp_path)
    assert [series.planned for series in series_of(nights)] == [True, True, False, False]
    assert all(night.ok for series in series_of(nights) for night in series.nights), "nothing is missing"


def test_channels_are_apart_and_a_night_knows_only_those_before_it(tmp_path):
    for number in range(4):
        a_night(tmp_path, number, night=Night(channel="release" if number % 2 else "main"))
    assert names(read(tmp_path)[0]) == [run_name(number) for number in range(4)]
    assert names(read(tmp_path, channel="release")[0]) == [run_name(1), run_name(3)]
    assert names(read(tmp_path, channel="main", before=run_name(2))[0]) == [run_name(0)]
    assert {series.key.channel for series in series_of(read(tmp_path)[0])} == {"main", "release"}
    with pytest.raises(GridbenchError, match=r"plan\.json can't be read"):
        read(tmp_path, before="nope")


def test_runs_that_are_no_nights_are_in_no_series_and_confirmations_are_read_by_name(tmp_path):
    a_night(tmp_path, 0)
    a_night(tmp_path, 1, night=None)
    a_night(tmp_path, 2, 1.5, night=Night(confirms=run_name(0)), cases=[MATMUL])
    assert names(read(tmp_path)[0]) == [run_name(0)]
    assert names(read_others(tmp_path)[0]) == [run_name(1), run_name(2)]
    fresh = confirmation(tmp_path, run_name(2))
    assert (fresh.confirms, fresh.channel) == (run_name(0), "main")
    assert confirmations(tmp_path) == {run_name(0): [run_name(2)]}
    night = replace(confirmation(tmp_path, run_name(0)), plan=plan_of(0, repeats=1))
    found = fresh_runs(fresh, night)[HERE, MATMUL.id]
    assert np.allclose(found.seconds, (1.5, 1.53)) and np.allclose(found.control_s, 2.0) and found.count == 2
    with pytest.raises(GridbenchError, match=r"plan\.json can't be read"):
        confirmation(tmp_path, "nope")
    (tmp_path / run_name(2)).rename(tmp_path / "moved")
    ((moved,),) = confirmations(tmp_path).values()
    assert confirmation(tmp_path, moved).plan.run == run_name(2), "where it lies, not what it was called"


def test_fresh_runs_are_groups_of_as_many_repeats_as_the_night_has(tmp_path):
    a_night(tmp_path, 0)
    plan = plan_of(1, Night(confirms=run_name(0)), cases=[MATMUL])
    made = [replace(r, repeat=2 * g + n) for g in range(3) for n, r in enumerate(measured(plan), start=1)]
    keep(tmp_path, plan, [replace(r, control=None) if r.repeat > 4 else r for r in made])
    night, again = confirmation(tmp_path, run_name(0)), confirmation(tmp_path, run_name(1))
    found = fresh_runs(again, night)[HERE, MATMUL.id]
    assert np.allclose(found.seconds, math.sqrt(1.02)) and len(found.seconds) == 3
    assert np.allclose(found.control_s[:2], 2.0) and math.isnan(found.control_s[2])


def test_fresh_runs_on_another_machine_do_not_count(tmp_path):
    a_night(tmp_path, 0)
    plan = plan_of(1, Night(confirms=run_name(0)), cases=[MATMUL])
    keep(tmp_path, plan, measured(plan, 1.3, environment=NEW_DRIVER))
    assert fresh_runs(confirmation(tmp_path, run_name(1)), confirmation(tmp_path, run_name(0))) == {}


def test_other_settings_start_a_segment(tmp_path):
    for number, repeats in enumerate((2, 2, 3)):
        a_night(tmp_path, number, repeats=repeats)
    assert by_case(tmp_path)[0][MATMUL.id].changes == {2: ("settings",)}


def test_an_empty_history_is_no_mistake(tmp_path):
    assert read(tmp_path) == ([], []) and read(tmp_path / "nowhere") == ([], [])
    assert series_of([]) == []
