import math

import numpy as np
import pytest

from tasks.findings.answer import SHOW_STATES, STATES
from tasks.findings.compare import compare
from tasks.results.sessions import (
    ENOUGH,
    WITHIN,
    SessionEffect,
    Sessions,
    effect_of,
    repeats_of,
    shared_sd,
)
from tasks.results.speedup import decide, speedup
from tasks.results.values import Estimate, RatioVerdict
from tests.benchmarks.simulated import modes
from tests.tasks.examples.records import IMAGES, MATMUL, machine, repeats

ASSUMED = 0.01
CLOSE = [0.999, 1.0, 1.001]


def earlier(rng, runs, whole, cell=0.0, noise=0.01, cases=14):
    return [
        {f"case-{i}": list(s + rng.normal(0, cell) + rng.normal(0, noise, 3)) for i in range(cases)}
        for s in rng.normal(0, whole, runs)
    ]


def found_with(b_s, sessions=None, **changes):
    records = [
        r
        for name, factor in (("a", 1.0), ("b", b_s))
        for case in (MATMUL, IMAGES)
        for r in repeats([factor * t for t in CLOSE], case, name)
    ]
    return compare(records, (machine("a", **changes), machine("b", **changes)), "a", sessions=sessions)


def test_two_computers_differ_only_by_more_than_their_sessions():
    near, far = found_with(0.98), found_with(0.95)
    assert near.answer[0].startswith("Fastest: undecided between b and a")
    assert far.answer[0].startswith("Fastest: b, ")
    lead = far.totals[1].speedup
    assert math.log(lead.high / lead.low) / 2 == pytest.approx(1.96 * ASSUMED * math.sqrt(2), rel=0.05)
    assert "one session of each machine" in near.caveat_line


def test_machines_of_one_computer_share_their_session():
    found = found_with(0.98, box="one")
    assert found.answer[0].startswith("Fastest: b, ")
    assert all(pairing.compute.outcome is RatioVerdict.FASTER for pairing in found.pairings)
    (reason,) = (caveat.reason for caveat in found.caveats if caveat.kind == "one session of each machine")
    assert "a and b" in reason and "do not include it" in reason


def test_the_source_of_the_effect_is_in_the_caveat():
    sessions = Sessions.of((machine("a"), machine("b")), {"a": SessionEffect(0.008, 0.02, 5.0, 6)}, ASSUMED)
    (reason,) = (c.reason for c in found_with(0.9, sessions).caveats if "session of" in c.kind)
    assert "0.8 % (single cells 2 %) between 6 earlier runs of a; 1 %, assumed" in reason


def test_more_repeats_are_not_advised_if_sessions_decide():
    ratio = decide(Estimate(1.01, 0.981, 1.04), 3, sessions_sd=0.0141)
    assert ratio.outcome is RatioVerdict.UNDECIDED and ratio.repeats_needed is None and ratio.equal
    assert "other sessions" in decide(Estimate(1.01, 0.92, 1.11), 3, sessions_sd=0.04).why
    wide = decide(Estimate(1.1, 0.95, 1.27), 3, sessions_sd=0.0141)
    assert 3 < wide.repeats_needed < 10


def test_a_single_cell_has_the_effect_of_cells_and_a_suite_that_of_the_whole():
    sessions = Sessions.of((machine("a"), machine("b")), {"a": SessionEffect(0.003, 0.02, 5.0, 6)}, 0.0)
    assert shared_sd(sessions.of_whole("a", "b")) == pytest.approx(0.003)
    assert shared_sd(sessions.of_cell("a", "b")) == pytest.approx(0.02)
    assert WITHIN.of_cell("a", "b") == ()
    plain, wider = speedup(CLOSE, CLOSE), speedup(CLOSE, CLOSE, sessions.of_cell("a", "b"))
    assert wider.estimate.high > plain.estimate.high and wider.chance > plain.chance - 1e-9


def test_earlier_runs_show_both_effects():
    rng = np.random.default_rng(7)
    effects = [effect_of(earlier(rng, 12, 0.01, 0.02), ASSUMED) for _ in range(200)]
    assert {(e.runs, e.freedom) for e in effects} == {(12, 11)} and not effects[0].is_assumed
    whole, cell = (np.sqrt(np.mean([getattr(e, name) ** 2 for e in effects])) for name in ("whole", "cell"))
    assert whole == pytest.approx(math.hypot(0.01, 0.02 / math.sqrt(14)), rel=0.1)
    assert cell == pytest.approx(math.hypot(0.01, 0.02), rel=0.1)


def test_too_few_earlier_runs_can_only_widen():
    rng = np.random.default_rng(8)
    quiet, restless = (effect_of(earlier(rng, ENOUGH - 1, effect), ASSUMED) for effect in (0.0, 0.2))
    assert (quiet.whole, quiet.freedom, quiet.is_assumed) == (ASSUMED, math.inf, True)
    assert restless.whole > 5 * ASSUMED
    assert effect_of([{"a": [0.0]}, {"b": [1.0]}], ASSUMED) is None and effect_of([], ASSUMED) is None


@pytest.mark.parametrize("runs", [ENOUGH, 12])
def test_equal_machines_are_rarely_distinguished_by_earlier_runs(runs):
    """400 pairs with an effect of 2 %, twice the assumed one."""
    rng, told = np.random.default_rng(runs), 0
    for _ in range(400):
        known = {name: effect_of(earlier(rng, runs, 0.02), ASSUMED) for name in "ab"}
        added = Sessions.of((machine("a"), machine("b")), known, ASSUMED).of_whole("a", "b")
        sides = (np.exp(rng.normal(0, 0.02) + rng.normal(0, 0.003, 3)).tolist() for _ in "ab")
        told += speedup(*sides, added).outcome is not RatioVerdict.UNDECIDED
    assert told / 400 < 0.09


def test_earlier_repeats_widen_those_that_happen_to_agree():
    sessions = Sessions(repeats={"a": repeats_of([{"case": [0.0, 0.04, 0.04]}] * 6)})
    ((added, freedom),) = sessions.of_repeats("a", "case", CLOSE)
    assert added == pytest.approx((0.04**2 / 3 - 1e-6) / 3, rel=0.01) and freedom == 12
    assert sessions.of_repeats("a", "case", [1.0, 1.1, 1.2]) == ()
    assert sessions.of_repeats("a", "other", CLOSE) == sessions.of_repeats("b", "case", CLOSE) == ()
    assert repeats_of([{"case": [0.0, 0.04, 0.04]}] * 2) == {}


def with_history(values, history):
    """Return two machines over two cases; `b` has these times, earlier runs these repeats."""
    records = [
        r
        for name, times in (("a", CLOSE), ("b", values))
        for case in (MATMUL, IMAGES)
        for r in repeats(times, case, name)
    ]
    machines = (machine("a"), machine("b"))
    return compare(records, machines, "a", sessions=Sessions.of(machines, {}, 0.0, history))


def states_of(comparison):
    return [caveat.reason for caveat in comparison.caveats if caveat.kind == STATES]


def test_cells_whose_intervals_earlier_repeats_widen_are_named_with_both_widths():
    known = repeats_of([{case.id: [0.0, 0.04, 0.04] for case in (MATMUL, IMAGES)}] * 6)
    steady = repeats_of([{case.id: [0.0, 0.0005, 0.001] for case in (MATMUL, IMAGES)}] * 6)
    found = with_history(CLOSE, {"a": steady, "b": known})
    (reason,) = states_of(found)
    assert "2 ratios" in reason and f"{MATMUL.id} on b, ±0.23 % to ±2.9 %" in reason
    for pairing in found.pairings:
        assert pairing.own_compute.high < pairing.compute.estimate.high
        assert pairing.cost.chance == pytest.approx(pairing.compute.chance)
    assert states_of(with_history(CLOSE, {"a": steady, "b": steady})) == []


@pytest.mark.parametrize(("count", "caveats"), [(1, 0), (2, 1), (SHOW_STATES - 1, 1), (SHOW_STATES, 0)])
def test_too_few_repeats_say_that_they_cannot_show_two_states(count, caveats):
    times = [1 + place / 1000 for place in range(count)]
    records = [r for name in "ab" for r in repeats(times, MATMUL, name)]
    reasons = states_of(compare(records, (machine("a"), machine("b")), "a"))
    assert len(reasons) == caveats and all(f"{count} repeats cannot show" in reason for reason in reasons)


def test_intervals_of_a_machine_of_two_states_hold_the_truth_once_earlier_runs_have_shown_both():
    (before, _), (after, _) = modes.coverage(300, 0.08, 0.5, 3)
    assert before < 0.85 and after >= 0.9
