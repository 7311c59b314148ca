"""An answer measured again: the claims of a run, and their verdicts in another session."""

import math

import numpy as np
import pytest

from tasks.findings.claims import carrying_cases, claims_of
from tasks.findings.compare import compare, judged_cells
from tasks.findings.confirmation import EXIT_CODES, Confirmation, Confirmed
from tasks.findings.totals import CommonCases
from tasks.results.finding import EarlierSession
from tasks.results.sessions import Sessions
from tests.tasks.examples.records import IMAGES, MATMUL, machine, record, repeats

CASES = (MATMUL, IMAGES)
CLOSE = (0.999, 1.0, 1.001)


def records_of(run, times, cases=CASES, spread=CLOSE):
    """Records of machines by name, each with a factor to the first one's times."""
    return [
        r
        for name, factor in times.items()
        for case in cases
        for r in repeats([factor * t for t in spread], case, name, run=run)
    ]


def session(run, times, box="", cases=CASES, usd=None, spread=CLOSE):
    machines = [machine(name, usd, box=box) for name in times]
    cells, _ = judged_cells(records_of(run, times, cases, spread), machines)
    return EarlierSession(run, cells, machines, set(cases), Sessions.of(machines))


def again(then, now, box="", usd=None, between=(), cases=CASES, now_cases=CASES, spread=CLOSE):
    earlier = [session("first", then, box, cases, usd, spread)]
    earlier += [session(f"between-{i}", times, box, cases, usd) for i, times in enumerate(between)]
    machines = [machine(name, usd, box=box) for name in now]
    found = compare(records_of("second", now, now_cases, spread), machines, next(iter(now)), earlier=earlier)
    return found, found.finding(Confirmation)


@pytest.mark.parametrize(
    ("then", "now", "verdict"),
    [
        (1.10, 1.09, Confirmed.CONFIRMED),
        (1.10, 1.05, Confirmed.CONFIRMED),  # a smaller lead is a lead
        (1.10, 0.90, Confirmed.REFUTED),
        (1.10, 1.00, Confirmed.REFUTED),  # 7 to 13 % then, at most 3 % now
        (1.05, 1.02, Confirmed.OPEN),  # 2 to 8 % then, -1 to 5 % now
    ],
)
def test_a_lead_is_confirmed_refuted_or_open(then, now, verdict):
    found, confirmation = again({"a": 1.0, "b": then}, {"a": 1.0, "b": now})
    (claim,) = confirmation.claims
    assert (claim.claim.best, claim.claim.rival, claim.claim.is_decided) == ("a", "b", True)
    assert claim.verdict is confirmation.verdict is verdict and confirmation.exit_code == EXIT_CODES[verdict]
    assert claim.before.value == pytest.approx(then) and claim.now.value == pytest.approx(now)
    assert claim.change.value == pytest.approx(now / then) and claim.sessions == 2
    assert claim.together.value == pytest.approx(math.sqrt(now * then))
    assert found.answer[0].lower().startswith(f"{verdict}: ") and len(found.answer[0].split()) <= 25


def test_machines_of_one_box_share_their_session():
    _, confirmation = again({"a": 1.0, "b": 1.02}, {"a": 1.0, "b": 1.02}, box="one")
    assert confirmation.verdict is Confirmed.CONFIRMED
    _, confirmation = again({"a": 1.0, "b": 1.02}, {"a": 1.0, "b": 1.02})
    assert confirmation.claims[0].claim.is_decided is False and confirmation.verdict is Confirmed.OPEN


def test_an_undecided_answer_is_decided_by_all_sessions_together():
    then = now = {"a": 1.0, "b": 1.02}
    _, two = again(then, now)
    assert not two.claims[0].claim.is_decided and two.verdict is Confirmed.OPEN
    _, five = again(then, now, between=[then] * 3)
    assert five.verdict is Confirmed.CONFIRMED and five.claims[0].sessions == 5
    half, fifth = (math.log(c.claims[0].together.high / c.claims[0].together.low) for c in (two, five))
    assert fifth < half


def test_sessions_that_differ_more_than_is_known_have_a_wide_mean():
    _, confirmation = again({"a": 1.0, "b": 1.3}, {"a": 1.0, "b": 1.1})
    together = confirmation.claims[0].together
    half = math.log(together.high / together.low) / 2
    assert half == pytest.approx(12.706 * math.log(1.3 / 1.1) / 2, rel=1e-3)
    assert confirmation.verdict is Confirmed.CONFIRMED  # the session alone shows a lead
    _, alike = again({"a": 1.0, "b": 1.3}, {"a": 1.0, "b": 1.29})
    assert math.log(alike.claims[0].together.high / alike.claims[0].together.low) < half / 4


def test_time_and_cost_are_two_claims_and_a_missing_one_is_open():
    then = {"a": 1.0, "b": 1.1, "c": 1.5}
    earlier = [session("first", then, usd=1.0)]
    machines = [machine(name, 1.0) for name in "ab"]
    found = compare(records_of("second", {"a": 1.0, "b": 1.1}), machines, "a", earlier=earlier)
    confirmation = found.finding(Confirmation)
    assert {(c.claim.by, c.claim.rival) for c in confirmation.claims} == {("time", "b"), ("cost", "b")}
    assert confirmation.verdict is Confirmed.CONFIRMED
    alone = compare(records_of("second", {"a": 1.0}), machines[:1], "a", earlier=earlier)
    confirmation = alone.finding(Confirmation)
    assert confirmation.claims == () and confirmation.verdict is Confirmed.OPEN
    assert len(confirmation.missing) == 2 and alone.answer[0].startswith("Open: ")


def test_only_cases_of_both_sessions_are_compared():
    _, confirmation = again({"a": 1.0, "b": 1.1}, {"a": 1.0, "b": 1.1}, now_cases=CASES[:1])
    assert confirmation.claims[0].cases == 1 and confirmation.verdict is Confirmed.CONFIRMED


def test_a_run_that_confirms_none_has_no_line():
    found = compare(records_of("first", {"a": 1.0, "b": 2.0}), [machine("a"), machine("b")], "a")
    confirmation = found.finding(Confirmation)
    assert confirmation.headline() == confirmation.details() == () and confirmation.table() is None
    assert confirmation.published() == {}


def test_tied_machines_are_rivals_and_otherwise_the_next_one_is():
    tied, apart = session("r", {"a": 1.0, "b": 1.001, "c": 2.0}), session("r", {"c": 2.0, "a": 1.0, "b": 1.5})
    for one, rivals in ((tied, [("b", False)]), (apart, [("b", True)])):
        claims = claims_of(CommonCases.of(one.cells, one.sessions), one.machines)
        assert [(c.rival, c.is_decided) for c in claims if c.by == "time"] == rivals


def test_the_cases_that_make_the_difference_carry_the_answer():
    sizes = [MATMUL, IMAGES]
    cells = [
        *(record(t, MATMUL, name, i) for name, t in (("a", 1.0), ("b", 2.0)) for i in range(2)),
        *(record(t, IMAGES, name, i) for name, t in (("a", 0.010), ("b", 0.011)) for i in range(2)),
    ]
    machines = [machine("a", None), machine("b", None)]
    suite = CommonCases.of(judged_cells(cells, machines)[0], Sessions.of(machines))
    assert set(suite.cases) == set(sizes)
    assert carrying_cases(suite, claims_of(suite, machines)) == (MATMUL,)


@pytest.mark.parametrize(("gap", "most_false"), [(0.0, 0.1), (0.05, 0.05)])
def test_a_confirmation_is_rarely_false(gap, most_false):
    """In 150 pairs of runs with a session effect of 1 %: no lead where there is none, and a true one not refuted."""
    rng, verdicts = np.random.default_rng(11), []
    for _ in range(150):
        levels = [{"a": math.exp(a), "b": math.exp(b + gap)} for a, b in rng.normal(0, 0.01, (2, 2))]
        verdicts.append(again(*levels)[1].verdict)
    false = Confirmed.CONFIRMED if not gap else Confirmed.REFUTED
    assert verdicts.count(false) / 150 <= most_false
    if gap:
        assert verdicts.count(Confirmed.CONFIRMED) / 150 > 0.8


def test_a_session_of_single_repeats_leaves_the_answer_open():
    alone, twice = session("first", {"a": 1.0, "b": 2.0}, spread=CLOSE[:1]), {"a": 1.0, "b": 2.0}
    found = compare(records_of("second", twice), [machine("a"), machine("b")], "a", earlier=[alone])
    (claim,) = found.finding(Confirmation).claims
    assert claim.verdict is Confirmed.OPEN and claim.now.low > 1
    assert (claim.before.low, claim.together.low, claim.change.low) == (None, None, None)
