from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tasks.regressions.missing import Failures, failures, missing, more_than_ever, share_of_not_ok
from tasks.regressions.nightly_gate import SeriesState, screen
from tasks.regressions.panel import panel_of
from tasks.regressions.series import Observation, Series, SeriesKey

START = datetime(2026, 6, 1, 2, 30, tzinfo=UTC)


def series(case, *verdicts, asked=True, first=0):
    nights = (
        Observation(
            f"night-{i:03}", START + timedelta(days=i), 0.1 if verdict == "ok" else None, verdict=verdict
        )
        for i, verdict in enumerate(verdicts, first)
    )
    return Series(SeriesKey("box", case, "main"), tuple(nights), asked)


def told(*all_series, column=-1):
    found = missing(screen(panel_of(all_series), (), column), all_series)
    return {key.case: sentence for key, sentence in found.items()}


def test_three_nights_without_a_number_are_news():
    ok = ("ok",) * 5
    gone = series("gone", *ok, "out_of_memory", "missing", "out_of_memory")
    assert told(gone, series("there", *ok, *ok[:3])) == {
        "gone": "box/gone@main has no number for 3 nights: out_of_memory in 2, missing in 1; "
        "the last one was in night night-004."
    }
    assert told(gone, column=6) == {}  # the night before, they were 2
    assert told(series("renamed", *ok, *("missing",) * 4, asked=False)) == {}
    assert told(series("short", *ok, "wrong", "wrong")) == {}


def test_a_case_that_never_worked_is_news_too():
    found = told(
        series("old", *("ok",) * 6), series("never", "crashed", "crashed", "crashed", "crashed", first=2)
    )
    assert found == {"never": "box/never@main has no number for 4 nights: crashed in 4; it never had one."}


def test_nights_that_did_not_plan_a_case_are_not_in_its_series():
    every_second = series("rare", "ok", "noisy", "noisy", "noisy")
    nights = tuple(
        Observation(
            one.run.replace(one.run[-3:], f"{2 * i:03}"),
            START + timedelta(days=2 * i),
            one.seconds,
            verdict=one.verdict,
        )
        for i, one in enumerate(every_second.nights)
    )
    found = told(Series(every_second.key, nights), series("daily", *("ok",) * 7))
    assert "for 3 nights: noisy in 3; the last one was in night night-000" in found["rare"]
    assert screen(panel_of([Series(every_second.key, nights)]), ()).states() == [SeriesState.MISSING]


def test_the_failed_share_of_a_night_is_of_its_planned_cells():
    counted = failures(
        [series("one", "ok", "noisy", "ok"), series("two", "ok", "wrong"), series("late", "ok", first=2)]
    )
    assert counted.runs == ("night-000", "night-001", "night-002")
    assert counted.planned.tolist() == [2, 2, 2] and counted.failed.tolist() == [0, 2, 0]
    assert share_of_not_ok(counted).tolist() == [0.0, 1.0, 0.0]
    nothing = Failures(("a", "b"), np.array([0, 4]), np.array([0, 1]))
    assert np.isnan(share_of_not_ok(nothing)[0]) and share_of_not_ok(nothing)[1] == 0.25
    assert more_than_ever(nothing) == ""


def history(failed, asked=20):
    failed = np.asarray(failed)
    return Failures(tuple(f"night-{i:03}" for i in range(len(failed))), np.full(len(failed), asked), failed)


def test_a_night_in_which_more_fails_than_ever_is_reported():
    assert more_than_ever(history([0, 1, 0] * 15 + [6])) == (
        "6 of 20 series have no number in night night-045, 30 %: in the 38 nights before it was 1.6 %."
    )
    assert more_than_ever(history([0, 1, 0] * 15 + [2])) == ""
    assert more_than_ever(history([6] * 45 + [6])) == "" != more_than_ever(history([6] * 45 + [16]))
    assert more_than_ever(history([0] * 45 + [0])) == ""
    assert more_than_ever(history([20] * 45 + [1])) == ""  # fewer than ever is good news


def test_a_bad_night_in_a_history_of_bad_nights_is_not_reported():
    often = [0] * 9 + [10]
    assert more_than_ever(history(often * 6 + [10])) == ""
    assert more_than_ever(history([0] * 20 + [20] + [0] * 35 + [10]))


def test_a_lasting_loss_is_reported_for_a_week_and_a_short_history_reports_nothing():
    lasting = history([0] * 40 + [10] * 30)
    nights = [night for night in range(70) if more_than_ever(lasting, night)]
    assert nights[:7] == list(range(40, 47)) and nights[-1] < 52
    assert more_than_ever(history([0] * 10 + [10])) == ""
    assert more_than_ever(history([0] * 19 + [10]))


@pytest.mark.parametrize("rate", [0.002, 0.02, 0.2])
def test_chance_tells_hardly_any_night(rate):
    rng = np.random.default_rng(11)
    nights = [(history(rng.binomial(40, rate, 200), 40), range(40, 200, 8)) for _ in range(25)]
    assert np.mean([bool(more_than_ever(one, night)) for one, which in nights for night in which]) <= 0.005
