import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from tasks.findings.compare import compare
from tasks.findings.session_spread import SessionSpread
from tasks.findings.totals import CommonCases, geomean_ratio, time_ratio, time_ratio_p, total_seconds
from tasks.results.sessions import Sessions, of_mean
from tasks.results.values import RatioVerdict
from tests.benchmarks.simulated import several
from tests.tasks.examples.records import IMAGES, MATMUL, machine, record
from workloads.harness.records.intervals import t_quantile

MACHINES = (machine("a"), machine("b"))
HOUR_S = 3600.0


@pytest.mark.parametrize("ratio", [time_ratio, geomean_ratio])
@pytest.mark.parametrize(("count", "of_each"), [(3, 1), (3, 2), (5, 2)])
@pytest.mark.parametrize("effect", [0.0, 0.01, 0.02])
def test_intervals_of_three_sessions_or_more_hold_the_truth_for_any_effect(ratio, count, of_each, effect):
    estimates = [
        ratio(several.suite_of(np.random.default_rng((1, number)), count, effect, of_each), "a", "b")
        for number in range(400)
    ]
    held = np.mean([estimate.low <= 1 <= estimate.high for estimate in estimates])
    assert 0.95 - 3 * 0.011 <= held <= 0.95 + 3 * 0.011


@pytest.mark.parametrize("effect", [0.005, 0.02])
def test_effects_that_earlier_runs_have_shown_make_intervals_of_sessions_narrower(effect):
    held, half = several.coverage(300, 3, effect, is_shown=True)
    _, alone = several.coverage(300, 3, effect)
    assert held >= 0.92 and half < 0.8 * alone


def test_five_sessions_give_a_narrower_interval_than_one_session():
    assert several.coverage(100, 5, 0.01)[1] < 0.8 * several.coverage(100, 1, 0.01)[1]


def test_the_variance_is_that_of_the_levels_unless_it_is_known_otherwise():
    near, far, effect = [0.0, 0.01, 0.02], [0.0, 0.5, 1.0], (9e-5, 5.0)
    repeats = [[(1e-5, 4.0)]] * 3
    assert of_mean([0.0, 0.02], [[], []], [effect]) == (pytest.approx(0.0002 / 2), 1), "single repeats"
    assert of_mean(near, repeats, []) == (pytest.approx(1e-4 / 3), 2), "nothing else is known"
    assert of_mean(near, repeats, [(0.01, math.inf)]) == (pytest.approx(1e-4 / 3), 2), "only assumed"
    pooled, freedom = of_mean(near, repeats, [effect])
    assert pooled == pytest.approx(1e-4 / 3) and freedom == pytest.approx(
        2 + 1e-8 / (9e-5**2 / 5 + 1e-10 / 12)
    )
    assert of_mean(far, repeats, [effect]) == (pytest.approx(0.25 / 3), 2), "far more than is known"


def test_two_sessions_are_pooled_with_an_assumed_effect_unless_they_differ_by_far_more():
    repeats = [[(1e-5, 40.0)]] * 2
    pooled, freedom = of_mean([0.0, 0.01], repeats, [(1e-4, math.inf)])
    assert (pooled, freedom) == (pytest.approx((4 * 1.1e-4 + 0.5e-4) / 5 / 2), 5)
    assert of_mean([0.0, 0.5], repeats, [(1e-4, math.inf)]) == (pytest.approx(0.125 / 2), 1)


def test_a_total_of_several_sessions_has_the_interval_of_their_means():
    logs = {"a": [[0.0, 0.3, 0.0, 0.3, 0.6, 0.6]]}
    suite = CommonCases((MATMUL,), logs, session_numbers={"a": [[1, 2, 1, 2, 3, 3]]})
    total = total_seconds(suite, "a")
    assert total.value == pytest.approx(math.exp(0.3))
    assert math.log(total.high) == pytest.approx(0.3 + t_quantile(0.975, 2) * 0.3 / math.sqrt(3))


def measured(levels, boxes="same", apart_s=2 * HOUR_S, repeats=2, name="b"):
    """Return records of a machine with sessions of these log levels; `boxes` can change by session."""
    return [
        replace(
            record(
                math.exp(level + (0.001 if number else -0.001)), case, name, len(levels) * number + place + 1
            ),
            session=place + 1,
            environment={"hostname": f"{name}{place}" if boxes == "other" else name},
            started_at=datetime.fromtimestamp(apart_s * place + 100 * number, UTC).isoformat(),
        )
        for place, level in enumerate(levels)
        for number in range(repeats)
        for case in (MATMUL, IMAGES)
    ]


def found(levels_b, **changes):
    records = [*measured([0.0] * len(levels_b), name="a", **changes), *measured(levels_b, **changes)]
    return compare(records, MACHINES, "a", sessions=Sessions.of(MACHINES))


def spread_of(comparison, name):
    (machine_,) = [m for m in comparison.finding(SessionSpread).machines if m.hardware == name]
    return machine_


def test_the_table_of_sessions_has_the_spread_of_each_level():
    comparison = found([0.0, 0.03, -0.03], boxes="other", apart_s=0.0)
    b = spread_of(comparison, "b")
    assert (b.sessions, b.are_apart) == (3, True)
    assert b.between == pytest.approx(math.sqrt(0.03**2 - 2e-6 / 4), rel=0.001)
    assert b.processes == pytest.approx(math.sqrt(2) * 0.001, rel=0.001)
    assert spread_of(comparison, "a").between == 0
    assert len(comparison.finding(SessionSpread).table().rows) == 2
    published = comparison.finding(SessionSpread).published()["session_spread"]
    assert [(each["hardware"], each["sessions"]) for each in published] == [("a", 3), ("b", 3)]
    one = compare([replace(r, session=None) for r in measured([0.0], name="a")], MACHINES[:1], "a")
    assert one.finding(SessionSpread).table() is None and one.finding(SessionSpread).published() == {}


def kinds(comparison):
    return [caveat.kind for caveat in comparison.caveats]


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        ({"boxes": "other", "apart_s": 100.0}, False),
        ({"apart_s": 2 * HOUR_S}, False),
        ({"apart_s": 600.0}, True),
    ],
)
def test_turns_of_one_box_in_a_row_still_share_a_session(changes, is_one):
    comparison = found([0.001, 0.0, -0.001], **changes)
    assert ("one session of each machine" in kinds(comparison)) is is_one
    total = comparison.totals[1].speedup
    half = math.log(total.high / total.low) / 2
    whole = 1.96 * 0.01 * math.sqrt(2)
    assert (half >= whole) is is_one
    (cell, _) = comparison.pairings
    assert (math.log(cell.compute.estimate.high / cell.compute.estimate.low) / 2 >= whole) is is_one


def test_cells_and_costs_of_several_sessions_rest_on_their_means():
    comparison = found([-0.2, -0.21, -0.19], boxes="other")
    for pairing in comparison.pairings:
        assert pairing.compute.outcome is RatioVerdict.FASTER
        assert pairing.compute.estimate.value == pytest.approx(math.exp(0.2))
        assert pairing.cost.chance == pytest.approx(pairing.compute.chance)
    assert "Fastest: b" in comparison.answer[0]


def test_sessions_count_alike_however_many_repeats_they_have():
    logs = {"a": [[0.0, 0.0, 0.0]], "b": [[0.0, 0.3, 0.0]]}
    numbers = {name: [[1, 2, 1]] for name in "ab"}
    suite = CommonCases((MATMUL,), logs, session_numbers=numbers, sessions=Sessions.of(MACHINES))
    assert time_ratio(suite, "b", "a").value == pytest.approx(math.exp(0.15))
    assert time_ratio_p(suite, "b", "a") == pytest.approx(2 * 0.25), "t of 1 with one degree of freedom"
    assert math.log(time_ratio(suite, "b", "a").high) == pytest.approx(0.15 + t_quantile(0.975, 1) * 0.15)
