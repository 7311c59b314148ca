"""The claims that a run's answer rests on: its best machine is ahead of the next one in time, or in cost."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.findings.ranking import compared, ordered
from tasks.findings.totals import CommonCases, times_by_case
from tasks.results.model import Machine
from tasks.results.values import RatioVerdict
from workloads.harness.records.case import Case

MOST_RIVALS = 3  # machines tied with the best that are measured again
CARRYING = 0.9  # share of the difference between two machines that the chosen cases make


@dataclass(frozen=True, slots=True)
class AnswerClaim:
    """The best machine of a run is ahead of a rival.

    Attributes:
        by: `time` or `cost`.
        factor: the rival's price over the best machine's; 1 for time.
        is_decided: whether the run has shown it.
    """

    by: str
    best: str
    rival: str
    factor: float
    is_decided: bool

    @property
    def text(self) -> str:
        """Return the claim in words, such as `a is faster than b`."""
        return f"{self.best} is {'faster' if self.by == 'time' else 'cheaper'} than {self.rival}"


def claims_of(suite: CommonCases, machines: Sequence[Machine]) -> tuple[AnswerClaim, ...]:
    """Return the best machine against the next one by time and by cost, or against those tied with it."""
    prices = {m.name: m.usd_per_hour for m in machines if m.usd_per_hour and m.name in suite.logs}
    ways = (("time", dict.fromkeys(suite.logs, 1.0)), ("cost", prices))
    return tuple(claim for by, weights in ways for claim in _claims(suite, by, weights))


def _claims(suite: CommonCases, by: str, weights: Mapping[str, float]) -> Iterator[AnswerClaim]:
    if len(weights) < 2 or not suite.cases:
        return
    best, *others = ordered(suite, weights)
    ratios = compared(suite, weights)
    behind = {name: ratios[name, best].outcome is RatioVerdict.FASTER for name in others}
    tied = [name for name in others if not behind[name]]
    for rival in tied[:MOST_RIVALS] or others[:1]:
        yield AnswerClaim(by, best, rival, weights[rival] / weights[best], behind[rival])


def carrying_cases(suite: CommonCases, claims: Collection[AnswerClaim]) -> tuple[Case, ...]:
    """Return the cases that make `CARRYING` of the difference of each claim, in the suite's order.

    A difference is the sum over cases of the rival's cost of a step less that of the best machine.
    """
    chosen: set[Case] = set()
    for claim in claims:
        best_s, rival_s = times_by_case(suite, claim.best), times_by_case(suite, claim.rival)
        apart = {case: abs(claim.factor * rival_s[case] - best_s[case]) for case in suite.cases}
        needed = CARRYING * sum(apart.values())
        for case in sorted(suite.cases, key=lambda case: -apart[case]):
            if needed <= 0 and chosen:
                break
            chosen.add(case)
            needed -= apart[case]
    return tuple(case for case in suite.cases if case in chosen)
