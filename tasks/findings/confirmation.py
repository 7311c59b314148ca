"""An earlier run's answer, measured again."""

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tasks.findings.claims import AnswerClaim, answers_of, claims_of, sessions_of_number
from tasks.findings.totals import CommonCases, LogRatio, fewest_repeats, log_time_ratio
from tasks.results.finding import EarlierSession, Finding, Results
from tasks.results.format import format_count, format_ratio, listed
from tasks.results.metrics import metric_in, one_number, points_text
from tasks.results.repeats import FEWEST
from tasks.results.sessions import FREEDOM, Part, shared_sd
from tasks.results.speedup import corrected, decide
from tasks.results.table import Column, Mark, Quantity, Table
from tasks.results.values import Estimate, Ratio, RatioVerdict
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.intervals import errors_of, likeliest, pooled_variance, variance, widest
from workloads.harness.records.program import Metric


class Confirmed(StrEnum):
    """Verdicts, the gravest first."""

    REFUTED = "refuted"
    OPEN = "open"
    CONFIRMED = "confirmed"


EXIT_CODES = {Confirmed.CONFIRMED: 0, Confirmed.REFUTED: 1, Confirmed.OPEN: 3}
OUTCOMES = {Confirmed.CONFIRMED: RatioVerdict.FASTER, Confirmed.REFUTED: RatioVerdict.SLOWER}
COLUMNS = (
    Column("Claim"),
    Column("Then", Quantity.RATIO),
    Column("Now", Quantity.RATIO),
    Column("All sessions", Quantity.RATIO),
    Column("Now over then", Quantity.RATIO),
    Column("Sessions", Quantity.COUNT),
    Column("Verdict", Quantity.VERDICT),
)
LEAD = (
    "The rival's time or cost over that of the best machine, or how many times as good its number is: above 1 if the "
    "claim is true. Percentages have a difference in points. Then and now are single sessions, over the cases of this "
    "run's plan. Over all sessions, the means of the sessions are the unit."
)


@dataclass(frozen=True, slots=True)
class ClaimAgain:
    """A claim then and now: the rival over the best machine.

    Attributes:
        before, now: with the effects of sessions.
        together: over all sessions.
        sessions: those with all `cases` on both machines.
        ratio: `now` with its verdict alone.
    """

    claim: AnswerClaim
    before: Estimate
    now: Estimate
    together: Estimate
    change: Estimate
    sessions: int
    cases: int
    verdict: Confirmed
    ratio: Ratio

    @property
    def sentence(self) -> str:
        way = {"time": " as fast", "number": " as good", "cost": " as cheap"}[self.claim.by]
        states = {
            Confirmed.CONFIRMED: f"Confirmed: {self.claim.text}",
            Confirmed.REFUTED: f"Refuted: that {self.claim.text}",
            Confirmed.OPEN: f"Open: whether {self.claim.text}",
        }
        then = "" if self.claim.is_decided else " and undecided"
        return (
            f"{states[self.verdict]}, {self.lead(self.now, way)} now, {self.lead(self.before)} then{then}, "
            f"over {format_count(self.cases, 'case')}."
        )

    @property
    def percentage(self) -> Metric | None:
        """Return its number if it is a percentage, compared by points."""
        metric = metric_in(self.claim.case.id) if self.claim.case else None
        return metric if metric and metric.unit == "%" else None

    def shown(self, ratio: Estimate) -> Estimate | str:
        return points_text(self.percentage, ratio) if self.percentage else ratio

    def lead(self, ratio: Estimate, way: str = "") -> str:
        return points_text(self.percentage, ratio) if self.percentage else f"{format_ratio(ratio)}{way}"

    def change_text(self, run: str) -> str:
        if self.percentage:
            return f"the difference now is {points_text(self.percentage, self.change)} more than in {run}"
        return f"the ratio now is {format_ratio(self.change)} of that in {run}"


@dataclass(frozen=True, slots=True)
class Confirmation(Finding):
    """The claims of an earlier run's answer, the gravest verdict first.

    Attributes:
        run: empty if this run confirms none.
        missing: a clause for each claim without a verdict; or why there is no claim.
    """

    name = "confirmation"
    title = "The answer measured again"
    order = 1
    run: str = ""
    claims: tuple[ClaimAgain, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def find(cls, results: Results) -> "Confirmation":
        answer = results.earlier
        if not answer.run:
            return cls()
        if not answer.sessions:
            return cls(answer.run, (), (answer.problem.rstrip(".") or f"{answer.run} cannot be read",))
        first = answer.sessions[0]
        parts = answers_of([cell for cell in first.cells if cell.cell.case in first.suite], first.sessions)
        cells = [*results.cells, *one_number(results.reported)]
        now = EarlierSession("", cells, results.machines, results.suite, results.sessions)
        times = [case for case in results.suite if case in first.suite]
        claims, missing = list[ClaimAgain](), list[str]()
        for claim in claims_of(parts, first.machines):
            cases = [claim.case] if claim.case else times
            if lacks := _lacks(claim, first, now, cases):
                missing.append(f"whether {claim.text}, as {lacks}")
            else:
                claims.append(_again(claim, [*answer.sessions, now], cases))
        return cls(answer.run, _judged(claims), tuple(missing))

    @property
    def verdict(self) -> Confirmed:
        """Return the gravest verdict; open if a claim was not measured."""
        verdicts = [again.verdict for again in self.claims]
        if Confirmed.REFUTED in verdicts:
            return Confirmed.REFUTED
        sure = bool(verdicts) and not self.missing and Confirmed.OPEN not in verdicts
        return Confirmed.CONFIRMED if sure else Confirmed.OPEN

    @property
    def exit_code(self) -> int:
        """Return 0 if confirmed, 1 if refuted, 3 if open."""
        return EXIT_CODES[self.verdict]

    def headline(self) -> tuple[str, ...]:
        if self.run and not self.claims:
            return (f"Open: the answer of {self.run} could not be judged again.",)
        refuted = [again.sentence for again in self.claims if again.verdict is Confirmed.REFUTED]
        others = [again.sentence for again in self.claims if again.verdict is not Confirmed.REFUTED]
        lacking = f"Open: {format_count(len(self.missing), 'claim')} without valid results of all cases."
        return (*refuted, *([lacking] if self.missing else []), *others)

    def details(self) -> tuple[str, ...]:
        return (
            *(
                f"{again.claim.text} ({again.verdict}): {again.lead(again.together)} over "
                f"{format_count(again.sessions, 'session')}; {again.change_text(self.run)}."
                for again in self.claims
            ),
            *(f"Open: {reason}." for reason in self.missing),
        )

    def table(self) -> Table | None:
        rows = tuple(
            (
                again.claim.text,
                *map(again.shown, (again.before, again.now, again.together, again.change)),
                again.sessions,
                Mark(str(again.verdict), OUTCOMES.get(again.verdict)),
            )
            for again in self.claims
        )
        return (
            Table(COLUMNS, rows, f"{LEAD} Then is {self.run}, whose prices count in both.") if rows else None
        )

    def published(self) -> dict[str, Any]:
        if not self.run:
            return {}
        return {
            "confirmation": {
                "run": self.run,
                "verdict": str(self.verdict),
                "missing": [*self.missing],
                "claims": [_published(again) for again in self.claims],
            }
        }


def _published(again: ClaimAgain) -> dict[str, Any]:
    ratios = {name: asdict(getattr(again, name)) for name in ("before", "now", "together", "change")}
    counts = {"sessions": again.sessions, "cases": again.cases}
    return asdict(again.claim) | ratios | counts | {"verdict": str(again.verdict)}


def _lacks(claim: AnswerClaim, first: EarlierSession, now: EarlierSession, cases: Collection[Case]) -> str:
    for session, name in ((first, first.run), (now, "this run")):
        if not _is_whole(_suite(session, claim, cases), claim, cases):
            bounded = {cell.cell for cell in session.cells if len(cell.compute_s) >= FEWEST}
            cells = [Cell(machine, case) for case in cases for machine in (claim.best, claim.rival)]
            names = sorted(cell.id for cell in cells if cell not in bounded)
            return f"{name} has no {FEWEST} valid repeats of {listed(names)}"
    return ""


def _is_whole(suite: CommonCases, claim: AnswerClaim, cases: Collection[Case]) -> bool:
    return bool(cases) and {claim.best, claim.rival} <= suite.logs.keys() and {*suite.cases} == {*cases}


def _again(claim: AnswerClaim, sessions: Sequence[EarlierSession], cases: Collection[Case]) -> ClaimAgain:
    """Return a claim in the first and the last session.

    Sessions that lack a case are left out: over fewer cases the ratio would be another one.
    """
    suites = [_suite(session, claim, cases) for session in sessions]
    alike = [suite for suite in suites if _is_whole(suite, claim, cases)]
    ratios = [log_time_ratio(suite, claim.rival, claim.best) for suite in alike]
    effects = [suite.between(claim.rival, claim.best) for suite in alike]
    log_factor = math.log(claim.factor)
    levels = [ratio.log + log_factor for ratio in ratios]
    parts = [_parts(ratio, effect) for ratio, effect in zip(ratios, effects, strict=True)]
    before, now = _estimate(levels[0], parts[0]), _estimate(levels[-1], parts[-1])
    change = _estimate(levels[-1] - levels[0], [*parts[0], *parts[-1]])
    together = _together(levels, parts, differ=change.low is not None and not _holds_1(change))
    ratio = _ratio(now, levels[-1], parts[-1], fewest_repeats(alike[-1]), effects[-1])
    return ClaimAgain(claim, before, now, together, change, len(alike), len(cases), Confirmed.OPEN, ratio)


def _suite(session: EarlierSession, claim: AnswerClaim, cases: Collection[Case]) -> CommonCases:
    names = {claim.best, claim.rival}
    cells = [cell for cell in session.cells if cell.cell.hardware in names and cell.cell.case in cases]
    sessions = sessions_of_number(claim.case, session.sessions) if claim.case else session.sessions
    return CommonCases.of(cells, sessions, keeps_busy=True)


def _parts(ratio: LogRatio, effects: Sequence[Part]) -> list[Part]:
    return [(ratio.variance, ratio.freedom), *effects]


def _freedom(parts: Sequence[Part]) -> float:
    return errors_of(parts, ())[0][1] if all(freedom > 0 for _, freedom in parts) else 0.0


def _estimate(log: float, parts: Sequence[Part]) -> Estimate:
    """Return a ratio, without bounds if a part has no degrees of freedom.

    The first part is the repeats'.
    """
    if _freedom(parts) <= 0:
        return Estimate(math.exp(log))
    half = widest(errors_of(parts[:1], parts[1:]), 0.975)
    return Estimate(math.exp(log), math.exp(log - half), math.exp(log + half))


def _ratio(now: Estimate, log: float, parts: Sequence[Part], repeats: int, effects: Sequence[Part]) -> Ratio:
    chance = likeliest(log, errors_of(parts[:1], parts[1:])) if _freedom(parts) > 0 else None
    return replace(decide(now, repeats, shared_sd(effects)), chance=chance)


def _together(levels: Sequence[float], parts: Sequence[Sequence[Part]], differ: bool) -> Estimate:
    """Return the mean of the sessions' ratios.

    Its variance is that of the sessions' means, pooled with the one that repeats and earlier sessions show,
    with at most `FREEDOM` degrees of freedom per session; of their means alone if first and last session
    differ by more. Source: Kalibera & Jones 2013, Rigorous benchmarking in reasonable time, 7 (hierarchical
    intervals).
    """
    if any(_freedom(each) <= 0 for each in parts):  # a session of single repeats has no variance
        return Estimate(math.exp(statistics.fmean(levels)))
    count, apart = len(levels), variance(levels)
    expected = statistics.fmean(math.fsum(part for part, _ in each) for each in parts)
    weight = 0.0 if differ else sum(min(_freedom(each), FREEDOM) for each in parts)
    pooled, freedom = pooled_variance([(expected, weight), (apart, count - 1)])
    return _estimate(statistics.fmean(levels), [(pooled / count, freedom)])


def _holds_1(estimate: Estimate) -> bool:
    return estimate.low is not None and estimate.high is not None and estimate.low <= 1 <= estimate.high


def _judged(claims: Sequence[ClaimAgain]) -> tuple[ClaimAgain, ...]:
    ratios = corrected([again.ratio for again in claims])
    judged = [
        replace(again, verdict=_verdict(again, ratio)) for again, ratio in zip(claims, ratios, strict=True)
    ]
    return tuple(sorted(judged, key=lambda again: [*Confirmed].index(again.verdict)))


def _verdict(again: ClaimAgain, ratio: Ratio | None) -> Confirmed:
    """Return the verdict of a claim.

    This session alone decides a claim that was decided, since it was not chosen by its own luck. It also
    refutes if it excludes the whole interval of the lead. All sessions together decide an undecided claim.
    """
    if not again.claim.is_decided:
        low, high = again.together.low, again.together.high
        if low is None or high is None or low <= 1 <= high:
            return Confirmed.OPEN
        return Confirmed.CONFIRMED if low > 1 else Confirmed.REFUTED
    outcome = ratio.outcome if ratio else RatioVerdict.UNDECIDED
    if outcome is RatioVerdict.FASTER:
        return Confirmed.CONFIRMED
    low, high = again.before.low, again.now.high
    is_gone = low is not None and high is not None and high < low
    return Confirmed.REFUTED if outcome is RatioVerdict.SLOWER or is_gone else Confirmed.OPEN
