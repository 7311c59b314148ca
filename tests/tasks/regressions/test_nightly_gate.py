import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tasks.regressions.baseline import STRICTEST, THRESHOLDS, threshold_z
from tasks.regressions.nightly_gate import SeriesState, confirm_suspects, screen
from tasks.regressions.panel import panel_of
from tasks.regressions.series import FreshRuns, Observation, Series, SeriesKey

START = datetime(2026, 6, 1, 2, 30, tzinfo=UTC)
KEY = SeriesKey("box", "matmul/n=2000/fp32", "main")
OTHER = SeriesKey("box", "mnist/batch=64/fp32", "main")
NOISE = np.random.default_rng(7).normal(0, 0.01, (2, 200))


def night(index, seconds, **changes):
    facts = {"machine_id": "m", "reference": "r", "hostname": "h"} | changes
    return Observation(f"night-{index:03}", START + timedelta(days=index), seconds, **facts)


def series(count, change=lambda index: 1.0, key=KEY, row=0, **changes):
    nights = (night(i, 0.1 * math.exp(NOISE[row, i]) * change(i), **changes) for i in range(count))
    return Series(key, tuple(nights))


def fresh(factor, count=5, control=None):
    spreads = np.linspace(-0.008, 0.008, count)
    controls = (control or math.nan,) * count
    return FreshRuns(tuple(0.1 * factor * math.exp(s) for s in spreads), controls)


def state_of(panel, changes=(), column=-1):
    return screen(panel, changes, column).states()[0]


def test_a_series_warms_up_and_is_then_watched():
    panel = panel_of([series(60)])
    states = [state_of(panel, (), column) for column in range(60)]
    assert states.index(SeriesState.WATCHING) == 8  # after 8 nights, of which a baseline leaves out none
    assert {*states[:8]} == {SeriesState.WARMING} and states.count(SeriesState.WATCHING) >= 43


def test_a_slow_night_is_a_suspect_and_fresh_runs_decide():
    panel = panel_of([series(60, lambda i: 1.2 if i == 59 else 1.0), series(60, key=OTHER, row=1)])
    judged = screen(panel, ())
    assert judged.suspects == [KEY] and judged.states() == [SeriesState.SUSPECT, SeriesState.WATCHING]
    assert judged.z[0] > 10 and 0.02 <= judged.smallest[0] < 0.04
    (told,) = confirm_suspects(judged, {KEY: fresh(1.2)})
    assert told.confirmed and told.confirmed.share > 0 and told.confirmed.run == "night-059"
    assert told.share == pytest.approx(0.2, abs=0.02) and told.z > threshold_z(2)
    (cleared,) = confirm_suspects(judged, {KEY: fresh(1.0)})
    assert cleared.confirmed is None and abs(cleared.share) < 0.02
    assert (
        confirm_suspects(judged, {}) == [] == confirm_suspects(judged, {OTHER: fresh(1.5)})
    )  # that one was not requested


def test_a_speedup_is_a_change_and_fresh_runs_of_the_other_sign_confirm_nothing():
    judged = screen(panel_of([series(60, lambda i: 0.8 if i == 59 else 1.0)]), ())
    (told,) = confirm_suspects(judged, {KEY: fresh(0.8)})
    assert told.confirmed and told.confirmed.share < 0
    (odd,) = confirm_suspects(judged, {KEY: fresh(1.2)})
    assert odd.confirmed is None


def test_two_fresh_runs_are_too_few():
    judged = screen(panel_of([series(60, lambda i: 1.2 if i == 59 else 1.0)]), ())
    assert (
        confirm_suspects(judged, {KEY: FreshRuns((0.12, 0.12, math.nan, 0.0, math.nan), (math.nan,) * 5)})
        == []
    )
    (enough,) = confirm_suspects(judged, {KEY: FreshRuns((0.12, 0.1201, 0.1199), (math.nan,) * 3)})
    assert enough.confirmed is not None


def test_fresh_runs_that_disagree_confirm_nothing():
    judged = screen(panel_of([series(60, lambda i: 1.05 if i == 59 else 1.0)]), ())
    (split,) = confirm_suspects(judged, {KEY: FreshRuns((0.1, 0.1, 0.105, 0.115, 0.115), (math.nan,) * 5)})
    assert split.confirmed is None


def test_after_a_confirmed_change_the_new_speed_is_the_baseline_at_once():
    panel = panel_of([series(90, lambda i: 1.2 if i >= 59 else 1.0)])
    (told,) = confirm_suspects(screen(panel, (), 59), {KEY: fresh(1.2)})
    later = [screen(panel, [told.confirmed], column) for column in range(60, 90)]
    assert sum(bool(judged.suspects) for judged in later) <= 3
    assert all(judged.before.nights[0] >= 1 and not judged.before.warming[0] for judged in later)
    assert state_of(panel, (), 75) is SeriesState.SUSPECT  # without the change it is reported again
    back = panel_of([series(90, lambda i: 1.2 if 59 <= i < 89 else 1.0)])
    (again,) = confirm_suspects(screen(back, [told.confirmed]), {KEY: fresh(1.0)})
    assert again.confirmed and again.confirmed.share < 0


def test_a_night_is_judged_as_it_was_then():
    short = panel_of([series(60, lambda i: 1.2 if i >= 59 else 1.0)])
    long = panel_of([series(120, lambda i: 1.2 if i >= 59 else 1.0)])
    (told,) = confirm_suspects(screen(short, ()), {KEY: fresh(1.2)})
    then, replayed = screen(short, ()), screen(long, [told.confirmed], 59)
    assert then.z[0] == replayed.z[0] and then.smallest[0] == replayed.smallest[0]
    assert confirm_suspects(replayed, {KEY: fresh(1.2)}) == [told]


def moved(nights, **changed):
    first = series(60).nights
    return panel_of([Series(KEY, first + series(60 + nights, lambda i: 1.5, **changed).nights[60:])])


@pytest.mark.parametrize("changed", [{"machine_id": "new"}, {"reference": "new"}])
def test_another_machine_or_control_starts_a_level_with_the_spread_of_before(changed):
    states = [state_of(moved(nights, **changed)) for nights in (1, 2, 3, 4)]
    assert states == [SeriesState.WARMING] * 3 + [SeriesState.WATCHING]
    judged = screen(moved(7, **changed), ())
    assert not judged.suspects and judged.before.spread[0] == pytest.approx(0.01, rel=0.3)
    assert judged.panel.segment[0].tolist() == [0] * 60 + [60] * 7


def test_other_settings_start_anew_as_they_change_the_spread():
    old = tuple(night(i, 0.1, settings="3 repeats") for i in range(60))
    new = tuple(night(i, 0.1, settings="5 repeats") for i in range(60, 67))
    assert state_of(panel_of([Series(KEY, old + new)])) is SeriesState.WARMING


def test_a_slow_box_is_not_slow_code():
    slow = lambda i: 1.15 if i == 59 else 1.0  # noqa: E731
    nights = tuple(
        night(i, 0.1 * math.exp(NOISE[0, i]) * slow(i), control_s=0.2 * math.exp(NOISE[1, i]) * slow(i))
        for i in range(60)
    )
    judged = screen(panel_of([Series(KEY, nights)]), ())
    if judged.suspects:
        (told,) = confirm_suspects(judged, {KEY: FreshRuns((0.115,) * 5, (0.23,) * 5)})
        assert told.confirmed is None and told.box
    (code,) = confirm_suspects(judged, {KEY: FreshRuns((0.115,) * 5, (0.2,) * 5)})
    assert code.confirmed is not None and not code.box


def test_a_lost_control_does_not_fake_a_change():
    nights = tuple(
        night(
            i, 0.1 * math.exp(3 * NOISE[0, i]), control_s=None if i == 59 else 0.2 * math.exp(3 * NOISE[0, i])
        )
        for i in range(60)
    )
    judged = screen(panel_of([Series(KEY, nights)]), ())
    assert judged.before.beta[0] == 0.0 and judged.before.spread[0] == pytest.approx(0.03, rel=0.5)


def test_missing_is_news_after_three_nights_where_it_is_still_asked_for():
    nights = series(40).nights + tuple(night(i, None, verdict="crashed") for i in range(40, 43))
    panel = panel_of([Series(KEY, nights)])
    assert [state_of(panel, (), column) for column in (40, 41, 42)] == [SeriesState.WATCHING] * 2 + [
        SeriesState.MISSING
    ]
    assert state_of(panel_of([Series(KEY, nights, planned=False)])) is SeriesState.WATCHING
    never = panel_of([Series(KEY, tuple(night(i, None, verdict="crashed") for i in range(3)))])
    assert state_of(never) is SeriesState.MISSING
    back = panel_of([Series(KEY, (*nights, night(43, 0.1)))])
    assert state_of(back) is SeriesState.WATCHING


def test_nights_of_other_hardware_are_no_missed_nights():
    ours = Series(KEY, tuple(night(2 * i, 0.1) for i in range(30)))
    theirs = Series(OTHER, tuple(night(2 * i + 1, 0.1) for i in range(30)))
    assert screen(panel_of([ours, theirs]), ()).panel.missed.max() == 0


def test_more_series_need_more_evidence():
    assert [threshold_z(n) for n in (1, 20, 21, 100, 101)] == [
        *(THRESHOLDS[0][1],) * 2,
        *(THRESHOLDS[1][1],) * 2,
        STRICTEST,
    ]


def test_a_series_that_never_moves_divides_by_nothing():
    judged = screen(panel_of([Series(KEY, tuple(night(i, 0.1) for i in range(60)))]), ())
    assert judged.states() == [SeriesState.WATCHING] and judged.z[0] == 0.0


def test_one_night_and_no_number_at_all_are_no_error():
    assert screen(panel_of([Series(KEY, (night(0, 0.1),))]), ()).states() == [SeriesState.WARMING]
    assert screen(panel_of([Series(KEY, (night(0, None),))]), ()).states() == [SeriesState.WARMING]
