import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.regressions.panel import panel_of
from tasks.regressions.robust import median_variance, typical_variance
from tasks.regressions.series import Observation, Series, SeriesKey
from tasks.regressions.series_reader import read_nights, series_of
from tests.tasks.examples.nights import NOW, keep, measured, plan_of
from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.records.parts import Control

KEY = SeriesKey("local-cpu", "matmul/n=5000/fp32", "main")
AT = datetime(2026, 11, 1, 2, tzinfo=UTC)
IDS = st.sampled_from(["", "a", "b"])


def series(*ids):
    nights = (
        Observation(f"run-{i}", AT + timedelta(days=i), 1.0, machine_id=machine, reference=reference)
        for i, (machine, reference) in enumerate(ids)
    )
    return Series(KEY, tuple(nights))


def test_a_key_has_a_readable_name_and_an_order():
    assert KEY.id == "local-cpu/matmul/n=5000/fp32@main"
    other = SeriesKey("gke-l4", "matmul/n=5000/fp32", "release")
    assert sorted([KEY, other]) == [other, KEY]


def test_a_segment_starts_where_the_machine_or_the_reference_is_another():
    found = series(("a", "r"), ("a", "r"), ("b", "r"), ("b", "q"), ("a", "p"), ("a", "p"))
    assert found.changes == {2: ("machine",), 3: ("reference",), 4: ("machine", "reference")}
    assert found.segment_start == 4 and found.segment == found.nights[4:]


def test_an_unknown_fact_neither_starts_nor_hides_a_segment():
    assert series(("", ""), ("a", ""), ("", "r"), ("a", ""), ("", "")).changes == {}
    assert series(("a", "r"), ("", ""), ("b", "r")).changes == {2: ("machine",)}


def test_a_night_in_sessions_has_the_variance_within_them_and_is_a_series_of_its_own(tmp_path):
    for number, sessions in enumerate((1, 2)):
        plan = plan_of(number, sessions=sessions, repeats=4)
        keep(
            tmp_path, plan, [replace(one, session=plan.session_of(one.repeat + 1)) for one in at_levels(plan)]
        )
    found = series_of(read_nights(tmp_path, now=NOW)[0])[0]
    alone, spread = found.nights
    assert found.changes == {1: ("settings",)} and spread.settings == "4 repeats in 2 sessions, quick"
    assert (alone.sessions, spread.sessions, spread.repeats) == (1, 2, 4)
    assert math.sqrt(alone.variance) > 0.1 and math.sqrt(spread.variance) == pytest.approx(0.01 / 2**0.5)
    assert spread.control_variance == pytest.approx(spread.variance) == pytest.approx(spread.covariance)
    own = panel_of([found]).own[0]
    assert own[1] == pytest.approx(typical_variance(spread.variance, 3) * median_variance(4))


def test_sessions_of_one_repeat_do_not_show_how_repeats_vary(tmp_path):
    plan = plan_of(0, sessions=4, repeats=4)
    keep(tmp_path, plan, [replace(one, session=one.repeat + 1) for one in at_levels(plan)])
    found = series_of(read_nights(tmp_path, now=NOW)[0])[0]
    assert found.nights[0].variance is None and math.isnan(panel_of([found]).own[0, 0])


def at_levels(plan):
    """Return repeats whose number sets their level, with equal controls."""
    for one in measured(plan):
        log = (0.0, 0.2, 0.01, 0.21)[one.repeat]
        wall = summarise(tuple(math.exp(log) for _ in one.wall.samples_s), 1, True, True)
        yield replace(one, wall=wall, control=Control("frozen", "ok", (), 2 * math.exp(log)))


def test_a_night_counts_where_it_has_a_number():
    assert Observation("run", AT, 1.0).ok
    assert not Observation("run", AT, None, verdict="crashed", repeats=0).ok


def test_an_empty_series_has_an_empty_segment():
    assert series().changes == {} and series().segment_start == 0 and series().segment == ()


@given(st.lists(st.tuples(IDS, IDS), max_size=12))
def test_a_segment_is_of_one_machine_and_one_reference(ids):
    found = series(*ids)
    assert len({n.machine_id for n in found.segment} - {""}) <= 1
    assert len({n.reference for n in found.segment} - {""}) <= 1
    assert all(0 < index < len(ids) and ids[index] != ids[index - 1] for index in found.changes)
