import math
from dataclasses import replace

import numpy as np
import pytest

from tasks.findings.answer import MOST_WORDS
from tasks.findings.claims import carrying_cases, claims_of
from tasks.findings.compare import compare, judged_cells
from tasks.findings.confirmation import EXIT_CODES, Confirmation, Confirmed
from tasks.findings.totals import CommonCases
from tasks.results.finding import EarlierAnswer, EarlierSession
from tasks.results.metrics import one_number
from tasks.results.sessions import Sessions
from tests.tasks.examples.records import IMAGES, MATMUL, machine, record, repeats
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.program import Better, MetricValue, ProgramRun
from workloads.harness.records.record import Verdict
from workloads.harness.records.script import OWN, ScriptRun

CASES = (MATMUL, IMAGES)
CLOSE = (0.999, 1.0, 1.001)


def records_of(run, times, cases=CASES, spread=CLOSE):
    """Return records of machines by name, each with a factor to the first one's times."""
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


def judged(earlier, records, machines, cases=CASES):
    answer = EarlierAnswer(earlier[0].run, earlier)
    return compare(records, machines, machines[0].name, cases, earlier=answer)


def again(then, now, box="", usd=None, between=(), cases=CASES, now_cases=CASES, spread=CLOSE):
    earlier = [session("first", then, box, cases, usd, spread)]
    earlier += [session(f"between-{i}", times, box, cases, usd) for i, times in enumerate(between)]
    machines = [machine(name, usd, box=box) for name in now]
    found = judged(earlier, records_of("second", now, now_cases, spread), machines, now_cases)
    return found, found.finding(Confirmation)


def mixed(run, factors, but=(), **changes):
    """Return records with a factor to each case's time, without some pairs of machine and case."""
    return [
        r
        for name, of_cases in factors.items()
        for case, seconds in zip(CASES, of_cases, strict=True)
        if (name, case) not in but
        for r in repeats([seconds * t for t in CLOSE], case, name, run=run, **changes)
    ]


def mixed_session(run, factors, but=()):
    machines = [machine(name, None) for name in factors]
    return EarlierSession(
        run, judged_cells(mixed(run, factors, but), machines)[0], machines, {*CASES}, Sessions.of(machines)
    )


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
    found = judged(earlier, records_of("second", {"a": 1.0, "b": 1.1}), machines)
    confirmation = found.finding(Confirmation)
    assert {(c.claim.by, c.claim.rival) for c in confirmation.claims} == {("time", "b"), ("cost", "b")}
    assert confirmation.verdict is Confirmed.CONFIRMED
    alone = judged(earlier, records_of("second", {"a": 1.0}), machines[:1])
    confirmation = alone.finding(Confirmation)
    assert confirmation.claims == () and confirmation.verdict is Confirmed.OPEN
    assert len(confirmation.missing) == 2 and alone.answer[0].startswith("Open: ")


def test_all_cases_of_the_plan_are_compared_and_no_others():
    _, confirmation = again({"a": 1.0, "b": 1.1}, {"a": 1.0, "b": 1.1}, now_cases=CASES[:1])
    assert confirmation.claims[0].cases == 1 and confirmation.verdict is Confirmed.CONFIRMED


MIXED = {"a": (1.0, 1.0), "b": (3.0, 0.9)}  # a wins by the first case and loses the second one


@pytest.mark.parametrize("but", [("a", MATMUL), ("b", MATMUL), ("a", IMAGES), ("b", IMAGES)])
def test_an_unchanged_answer_that_lacks_a_case_is_open(but):
    machines = [machine(name, None) for name in MIXED]
    found = judged([mixed_session("first", MIXED)], mixed("second", MIXED, [but]), machines)
    confirmation = found.finding(Confirmation)
    assert confirmation.claims == () and confirmation.verdict is Confirmed.OPEN
    assert confirmation.exit_code == 3 and Cell(*but).id in confirmation.missing[0]


def test_an_earlier_session_that_lacks_a_case_narrows_nothing():
    first, now, machines = (
        mixed_session("first", MIXED),
        mixed("third", MIXED),
        [machine(n, None) for n in MIXED],
    )
    for but, sessions in (((), 3), ([("b", MATMUL)], 2), ([("a", IMAGES)], 2)):
        between = mixed_session("second", MIXED, but)
        (claim,) = judged([first, between], now, machines).finding(Confirmation).claims
        assert (claim.sessions, claim.cases, claim.verdict) == (sessions, 2, Confirmed.CONFIRMED)
        assert claim.now.value == pytest.approx(3.9 / 2, rel=1e-3)


def test_a_case_of_a_busy_machine_stays():
    quiet = mixed("second", MIXED, [("b", MATMUL)])
    busy = [r for r in mixed("second", MIXED, verdict=Verdict.NOISY) if (r.hardware, r.case) == ("b", MATMUL)]
    machines = [machine(name, None) for name in MIXED]
    (claim,) = judged([mixed_session("first", MIXED)], [*quiet, *busy], machines).finding(Confirmation).claims
    assert claim.cases == 2 and claim.now.value == pytest.approx(3.9 / 2, rel=1e-3)


def test_an_answer_that_cannot_be_read_is_open():
    records, machines = records_of("second", {"a": 1.0, "b": 2.0}), [machine("a"), machine("b")]
    answer = EarlierAnswer("first", (), "The run first is damaged.")
    found = compare(records, machines, "a", CASES, earlier=answer)
    confirmation = found.finding(Confirmation)
    assert (confirmation.run, confirmation.exit_code) == ("first", 3)
    assert confirmation.published()["confirmation"]["verdict"] == "open"
    assert "Open: The run first is damaged." in confirmation.details() and found.answer[0].startswith(
        "Open: "
    )


def test_the_gravest_verdicts_are_first():
    then = {"a": 1.0, "b": 1.001, "c": 1.002, "d": 1.003}
    now = {"a": 1.0, "b": 1.1, "c": 1.002, "d": 0.9}
    found, confirmation = again(then, now, between=[now] * 9)
    verdicts = [claim.verdict for claim in confirmation.claims]
    assert set(verdicts) == {*Confirmed} and verdicts == sorted(verdicts, key=[*Confirmed].index)
    assert found.answer[0].startswith("Refuted: ") and confirmation.exit_code == 1
    for line, claim in zip(confirmation.details(), confirmation.claims, strict=True):
        assert claim.claim.text in line and str(claim.verdict) in line


def test_claims_without_a_verdict_follow_refuted_claims():
    then, now = {"a": 1.0, "b": 1.001, "c": 1.002}, {"a": 1.0, "b": 0.9}
    _, confirmation = again(then, now, between=[now] * 9)
    assert len(confirmation.missing) == 1 and confirmation.exit_code == 1
    assert [line.split(":")[0] for line in confirmation.headline()] == ["Refuted", "Open"]


def test_a_run_that_confirms_none_has_no_line():
    found = compare(records_of("first", {"a": 1.0, "b": 2.0}), [machine("a"), machine("b")], "a")
    confirmation = found.finding(Confirmation)
    assert confirmation.headline() == confirmation.details() == () and confirmation.table() is None
    assert confirmation.published() == {}


def test_tied_machines_are_rivals_and_otherwise_the_next_one_is():
    tied, apart = session("r", {"a": 1.0, "b": 1.001, "c": 2.0}), session("r", {"c": 2.0, "a": 1.0, "b": 1.5})
    for one, rivals in ((tied, [("b", False)]), (apart, [("b", True)])):
        claims = claims_of([CommonCases.of(one.cells, one.sessions)], one.machines)
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
    assert carrying_cases(suite, claims_of([suite], machines)) == (MATMUL,)


@pytest.mark.parametrize(("gap", "most_false"), [(0.0, 0.1), (0.05, 0.05)])
def test_a_confirmation_is_rarely_false(gap, most_false):
    """150 pairs of runs with a session effect of 1 %."""
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
    found = judged([alone], records_of("second", twice), [machine("a"), machine("b")])
    (claim,) = found.finding(Confirmation).claims
    assert claim.verdict is Confirmed.OPEN and claim.now.low > 1
    assert (claim.before.low, claim.together.low, claim.change.low) == (None, None, None)


SERVE = Case.of("serve", {"batch": 4}, OWN)
TOKENS, HITS = ("tokens/s", "tokens/s", Better.HIGHER), ("hits", "%", Better.HIGHER)
LOSS = ("loss", "", Better.LOWER)


def reported(run, numbers, metric):
    return [
        replace(
            record(1.0, SERVE, name, i, run=run),
            wall=None,
            script=ScriptRun(("serve",), program=ProgramRun(60.0, metrics=(MetricValue(*metric, one),))),
        )
        for name, number in numbers.items()
        for i, one in enumerate(number * spread for spread in CLOSE)
    ]


def numbers_again(then, now, metric, usd=None):
    machines = [machine(name, usd) for name in then]
    cells = one_number(judged_cells(reported("first", then, metric), machines)[0])
    earlier = EarlierSession("first", cells, machines, {cells[0].cell.case}, Sessions.of(machines))
    found = judged([earlier], reported("second", now, metric), machines, [SERVE])
    return found, found.finding(Confirmation)


@pytest.mark.parametrize(
    ("then", "now", "metric", "verdict", "line"),
    [
        (200.0, 198.0, TOKENS, Confirmed.CONFIRMED, "b is better in tokens/s of serve batch=4 than a, 1.98×"),
        (200.0, 50.0, TOKENS, Confirmed.REFUTED, "that b is better in tokens/s of serve batch=4 than a, 0.5"),
        (95.0, 94.0, HITS, Confirmed.CONFIRMED, "a is better in hits (%, higher) of serve batch=4 than b, 6"),
        (50.0, 52.0, LOSS, Confirmed.CONFIRMED, "b is better in loss (lower) of serve batch=4 than a, 1.92"),
    ],
)
def test_a_number_of_a_command_is_confirmed_or_refuted(then, now, metric, verdict, line):
    found, confirmation = numbers_again({"a": 100.0, "b": then}, {"a": 100.0, "b": now}, metric)
    (again,) = confirmation.claims
    assert again.claim.by == "number" and again.verdict is verdict
    assert line in found.answer[0] and len(found.answer[0].split()) <= MOST_WORDS
    assert ("points" in found.answer[0]) is (metric is HITS)
    assert confirmation.table() and confirmation.details()


def test_only_a_rate_has_a_claim_on_its_cost():
    _, confirmation = numbers_again({"a": 100.0, "b": 200.0}, {"a": 100.0, "b": 200.0}, TOKENS, usd=1.0)
    assert [again.claim.text for again in confirmation.claims] == [
        "b is better in tokens/s of serve batch=4 than a",
        "b is cheaper by tokens/s of serve batch=4 than a",
    ]
    _, confirmation = numbers_again({"a": 100.0, "b": 50.0}, {"a": 100.0, "b": 50.0}, LOSS, usd=1.0)
    assert [again.claim.by for again in confirmation.claims] == ["number"]


def test_a_number_that_was_not_measured_again_is_open():
    _, confirmation = numbers_again({"a": 100.0, "b": 200.0}, {"a": 100.0}, TOKENS)
    assert confirmation.verdict is Confirmed.OPEN and "b/serve/batch=4" in confirmation.missing[0]
