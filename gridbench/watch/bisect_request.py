"""The request for a search through versions."""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from tasks.errors import GridbenchError
from tasks.planning.channel import Night, Version
from tasks.planning.hardware import Hardware, load_suite_checked
from tasks.planning.plan import Plan
from tasks.planning.planner import check_amount, make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.baseline import LEAST_RERUNS, RERUNS
from tasks.regressions.bisect import NextMeasurement, VersionSearch, most_measurements, next_step
from tasks.results.metrics import measured_case, watched_cases
from tasks.store.address import ResultsAddress
from workloads.harness.records.errors import hint


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """The request for a search.

    Attributes:
        versions: oldest first, GOOD and BAD included.
        repeats: fresh processes per measurement.
        budget_usd: for all measurements together.
        id: of the search, under which all its runs are stored.
        found: the hardware, if it is a box that has reported its own properties.
        in_turns: each run measures two versions in turns.
    """

    case: str
    hardware: str
    suite: str
    versions: tuple[Version, ...]
    repeats: int
    budget_usd: float
    results: ResultsAddress
    id: str
    found: tuple[Hardware, ...] = ()
    in_turns: bool = False

    @property
    def first(self) -> NextMeasurement:
        first = next_step(VersionSearch(self.names, in_turns=self.in_turns))
        assert isinstance(first, NextMeasurement)
        return first

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(version.name for version in self.versions)

    def version(self, step: NextMeasurement) -> Version:
        version = self.versions[step.version]
        return (
            version
            if step.partner is None
            else version.model_copy(update={"partner": self.versions[step.partner]})
        )

    def run_request(
        self, step: NextMeasurement, resumed: str | None = None, left_usd: float | None = None
    ) -> RunRequest:
        return RunRequest(
            suite=self.suite,
            hardware=(self.hardware,),
            found=self.found,
            repeats=self.repeats,
            sessions=1,
            budget_usd=left_usd,
            resume=resumed,
            results=self.results.parameter,
            night=Night(confirms=self.id, cases=(measured_case(self.case),), version=self.version(step)),
        )

    def plan(self, step: NextMeasurement) -> Plan:
        return make_plan(self.run_request(step))


def search_id(resume: str | None) -> str:
    if resume is None:
        return f"bisect-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    if not re.fullmatch(r"bisect-[\w.-]{1,80}", resume):
        raise GridbenchError(
            f"resume={resume!r} is not a search; each prints its name, bisect-…, when it starts"
        )
    return resume


def process_count(case: str, suite: str, repeats: int | None) -> int:
    chosen = load_suite_checked(suite)
    cases = [name for entry in chosen.entries for name in watched_cases(entry.case, entry.script)]
    if case not in cases:
        raise GridbenchError(f"suite {suite} has no case {case!r}; {hint(case, cases)}")
    if repeats is not None and repeats < LEAST_RERUNS:
        raise GridbenchError(f"repeats={repeats} must be {LEAST_RERUNS} or more to tell a change from chance")
    return repeats or RERUNS * chosen.repeats


def checked_plan(request: BisectRequest) -> Plan:
    plan = request.plan(request.first)
    if plan.skips:
        raise GridbenchError(f"{request.hardware} can't measure {request.case}: {plan.skips[0].reason}")
    check_amount(request.budget_usd)
    most = most_measurements(len(request.versions), request.in_turns)
    if most * plan.estimate_usd > request.budget_usd:
        raise GridbenchError(
            f"the estimate of {most * plan.estimate_usd:.2f} USD for {most} measurements is above "
            f"budget_usd={request.budget_usd:g}; raise it, or choose fewer versions or repeats"
        )
    return plan
