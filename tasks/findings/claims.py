"""Claims of a run's answer: the best machine is ahead of the next."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.findings.ranking import compared, ordered
from tasks.findings.totals import CommonCases, times_by_case
from tasks.results.metrics import is_of_time, is_rate, measured_of, metric_in
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.sessions import WITHIN, Sessions
from tasks.results.values import RatioVerdict
from tasks.results.wording import script_text
from workloads.harness.records.case import Case

MOST_RIVALS = 3  # machines tied with the best that are measured again
CARRYING = 0.9  # share of the difference between two machines that the chosen cases make


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    """The best machine of a run is ahead of a rival.

    Attributes:
        by: `time`, `number` or `cost`.
        factor: the rival's price over the best's; 1 unless by cost.
        case: as `viewed` makes it; None for the total of times.
    """

    by: str
    best: str
    rival: str
    factor: float
    is_decided: bool
    case: Case | None = None

    @property
    def text(self) -> str:
        if self.case is None:
            return f"{self.best} is {'faster' if self.by == 'time' else 'cheaper'} than {self.rival}"
        label = f"{self.case.mode} of {script_text(measured_of(self.case))}"
        if self.by == "cost":
            return f"{self.best} is cheaper by {label} than {self.rival}"
        return f"{self.best} is better in {label} than {self.rival}"


def answers_of(cells: Sequence[Repeats], sessions: Sessions) -> tuple[CommonCases, ...]:
    """Return the total of times, and each command's first number."""
    times = [cell for cell in cells if metric_in(cell.cell.case.id) is None]
    numbers: dict[Case, list[Repeats]] = {}
    for cell in cells:
        if metric_in(cell.cell.case.id):
            numbers.setdefault(cell.cell.case, []).append(cell)
    return (
        CommonCases.of(times, sessions),
        *(CommonCases.of(alike, sessions_of_number(case, sessions)) for case, alike in numbers.items()),
    )


def sessions_of_number(case: Case, sessions: Sessions) -> Sessions:
    """Return none unless the case is a time or a rate."""
    metric = metric_in(case.id)
    return sessions if metric is None or is_of_time(metric) else WITHIN


def claims_of(answers: Sequence[CommonCases], machines: Sequence[Machine]) -> tuple[AnswerClaim, ...]:
    return tuple(claim for suite in answers for claim in _claims_of(suite, machines))


def _claims_of(suite: CommonCases, machines: Sequence[Machine]) -> Iterator[AnswerClaim]:
    metric = metric_in(suite.cases[0].id) if suite.cases else None
    prices = {m.name: m.usd_per_hour for m in machines if m.usd_per_hour and m.name in suite.logs}
    yield from _claims(suite, "number" if metric else "time", dict.fromkeys(suite.logs, 1.0))
    if metric is None or is_rate(metric):
        yield from _claims(suite, "cost", prices)


def _claims(suite: CommonCases, by: str, weights: Mapping[str, float]) -> Iterator[AnswerClaim]:
    if len(weights) < 2 or not suite.cases:
        return
    case = suite.cases[0] if metric_in(suite.cases[0].id) else None
    best, *others = ordered(suite, weights)
    ratios = compared(suite, weights)
    behind = {name: ratios[name, best].outcome is RatioVerdict.FASTER for name in others}
    tied = [name for name in others if not behind[name]]
    for rival in tied[:MOST_RIVALS] or others[:1]:
        yield AnswerClaim(by, best, rival, weights[rival] / weights[best], behind[rival], case)


def carrying_cases(suite: CommonCases, claims: Collection[AnswerClaim]) -> tuple[Case, ...]:
    """Return the cases that make `CARRYING` of the difference of each claim on times."""
    chosen: set[Case] = set()
    for claim in (claim for claim in claims if claim.case is None):
        best_s, rival_s = times_by_case(suite, claim.best), times_by_case(suite, claim.rival)
        apart = {case: abs(claim.factor * rival_s[case] - best_s[case]) for case in suite.cases}
        needed = CARRYING * sum(apart.values())
        for case in sorted(suite.cases, key=lambda case: -apart[case]):
            if needed <= 0 and chosen:
                break
            chosen.add(case)
            needed -= apart[case]
    return tuple(case for case in suite.cases if case in chosen)
