"""gridbench bisect: find the version that changed a case's time, measuring as few versions as possible."""

import asyncio
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gridbench.run.reach import check_reach, for_flow
from gridbench.terminal import Results, console, log_or_screen, say
from gridbench.watch.bisect_text import ending, line_of, plan_text, table
from gridbench.watch.versions import describe_commit, runnable_versions, versions_between
from tasks.errors import GridbenchError
from tasks.planning.channel import Night, Version
from tasks.planning.hardware import hardware_names, load_suite_checked
from tasks.planning.plan import Plan
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.baseline import LEAST_RERUNS, RERUNS
from tasks.regressions.bisect import (
    FirstBadVersion,
    NextMeasurement,
    NextStep,
    VersionSearch,
    most_rounds,
    next_step,
)
from tasks.regressions.bisect_runs import complete, round_of, runs_of
from tasks.schema import hint
from tasks.store.bucket import find, folder_of
from tasks.store.store import DEFAULT, Store

FOLLOWED = "bench/quick"  # the deployment of `bench` that measures every suite

Case = Annotated[str, typer.Argument(help="Id of a case of the suite, such as matmul/n=2000/fp32")]
Good = Annotated[str, typer.Argument(help="A version before the change")]
Bad = Annotated[str, typer.Argument(help="A later version, after it")]
ImageTemplate = Annotated[
    str | None, typer.Option(help="Image of a version, such as 'registry/gridbench:{version}'")
]
CommandTemplate = Annotated[
    str | None,
    typer.Option(
        help="Without images: command of a version, such as '/envs/{version}/bin/python -P -m workloads'"
    ),
]
Versions = Annotated[
    str | None,
    typer.Option(
        help="Versions, oldest first: a file with one per line, or v1,v2,v3; git's commits by default"
    ),
]
Processes = Annotated[
    int | None, typer.Option(help=f"Fresh processes per measurement; {RERUNS} times the suite's by default")
]


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """The request for a search.

    Attributes:
        versions: oldest first, GOOD and BAD included.
        repeats: fresh processes per measurement.
        budget_usd: for all measurements together.
        id: name of the search, under which all its runs are stored.
    """

    case: str
    hardware: str
    suite: str
    versions: tuple[Version, ...]
    repeats: int
    budget_usd: float
    results: Path
    id: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the versions."""
        return tuple(version.name for version in self.versions)

    def night(self, version: int) -> Night:
        """Return the plan's entry that makes a run part of this search."""
        return Night(confirms=self.id, cases=(self.case,), version=self.versions[version])

    def run_request(
        self, version: int, resumed: str | None = None, left_usd: float | None = None
    ) -> RunRequest:
        """Return the request for one measurement, or for the rest of an earlier run of it."""
        return RunRequest(
            suite=self.suite,
            hardware=(self.hardware,),
            repeats=self.repeats,
            budget_usd=left_usd,
            resume=resumed,
            results=for_flow(self.results),
            night=self.night(version),
        )

    def plan(self, version: int) -> Plan:
        """Return the plan of one measurement.

        Raises:
            GridbenchError: it can't be made.
        """
        return make_plan(self.run_request(version))


def bisect(
    case: Case,
    good: Good,
    bad: Bad,
    on: Annotated[str, typer.Option(help=f"Hardware: {', '.join(hardware_names())}")],
    suite: Annotated[str, typer.Option(help="Suite that has the case")] = "nightly",
    image_template: ImageTemplate = None,
    command_template: CommandTemplate = None,
    versions: Versions = None,
    repeats: Processes = None,
    budget_usd: Annotated[
        float, typer.Option(help="USD for all measurements: refuse to start above it, stop once it is spent")
    ] = 5.0,
    results: Results = DEFAULT,
    resume: Annotated[str | None, typer.Option(help="Continue this interrupted search")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the effort and stop")] = False,
) -> None:
    """Find the version between GOOD and BAD that made CASE slower, or faster, by measuring some of them.

    Exit codes:

    0: the version is found and confirmed

    1: there is no change, or it is not narrowed down to one version, or not confirmed

    2: an argument is wrong, or a measurement failed
    """
    names, commits = versions_between(good, bad, versions)
    runnable, count = (
        runnable_versions(names, image_template, command_template),
        _repeats(case, suite, repeats),
    )
    request = BisectRequest(case, on, suite, runnable, count, budget_usd, results, _search_id(resume))
    plan = _checked_plan(request)
    say(plan_text(request.names, plan))
    if dry_run:
        return
    check_reach(plan.hardware)
    search, step = _run_search(request, _earlier(request) if resume else [], plan)
    raise typer.Exit(0 if _report(case, search, step, commits) else 1)


def _report(case: str, search: VersionSearch, step: NextStep, commits: bool) -> bool:
    """Print the result; return True if it is one version, and confirmed."""
    log_or_screen().print(table(case, search))
    for sentence in ending(case, search, step):
        say(sentence)
    if not isinstance(step, FirstBadVersion):
        return False
    if commits:
        say(describe_commit(search.versions[step.first_bad]))
    return not step.doubt and not step.skipped


def _search_id(resume: str | None) -> str:
    """Return the id of a search: a new one, or that of the search to continue.

    Raises:
        GridbenchError: it is not the id of a search.
    """
    if resume is None:
        return f"bisect-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    if not re.fullmatch(r"bisect-[\w.-]{1,80}", resume):
        raise GridbenchError(
            f"resume={resume!r} is not a search; each prints its name, bisect-…, when it starts"
        )
    return resume


def _repeats(case: str, suite: str, repeats: int | None) -> int:
    """Return the number of processes per measurement.

    Raises:
        GridbenchError: it is too small, or the suite lacks the case.
    """
    chosen = load_suite_checked(suite)
    cases = [each.id for each in chosen.cases]
    if case not in cases:
        raise GridbenchError(f"suite {suite} has no case {case!r}; {hint(case, cases)}")
    if repeats is not None and repeats < LEAST_RERUNS:
        raise GridbenchError(f"repeats={repeats} must be {LEAST_RERUNS} or more to tell a change from chance")
    return repeats or RERUNS * chosen.repeats


def _checked_plan(request: BisectRequest) -> Plan:
    """Return the plan of one measurement.

    Raises:
        GridbenchError: the machine can't measure the case, or the search is estimated above its budget.
    """
    plan = request.plan(0)
    if plan.skips:
        raise GridbenchError(f"{request.hardware} can't measure {request.case}: {plan.skips[0].reason}")
    if not request.budget_usd >= 0:
        raise GridbenchError(f"budget_usd={request.budget_usd} must be 0 or more")
    most = most_rounds(len(request.versions))
    if most * plan.estimate_usd > request.budget_usd:
        raise GridbenchError(
            f"the estimate of {most * plan.estimate_usd:.2f} USD for {most} measurements is above "
            f"budget_usd={request.budget_usd:g}; raise it, or choose fewer versions or repeats"
        )
    return plan


def _earlier(request: BisectRequest) -> list[Store]:
    """Return the runs of an interrupted search, oldest first.

    Raises:
        GridbenchError: there are none, or they measured something else.
    """
    earlier = runs_of(request.results, request.id)
    if not earlier:
        raise GridbenchError(f"{request.results} has no run of {request.id!r}; start without --resume")
    expected = (request.suite, [request.hardware], (request.case,), request.repeats)
    for plan in (store.plan for store in earlier):
        night = plan.night or Night()
        if (plan.suite, [m.name for m in plan.hardware], night.cases, plan.repeats) != expected:
            raise GridbenchError(
                f"run {plan.run} of {request.id} measured {', '.join(night.cases) or plan.suite} on "
                f"{plan.baseline} with {plan.repeats} repeats: resume with the same options as at the start"
            )
    return earlier


def _run_search(request: BisectRequest, earlier: list[Store], plan: Plan) -> tuple[VersionSearch, NextStep]:
    """Measure until the search ends; if it is interrupted, print the command that continues it."""
    from gridbench.run.follow import follow
    from gridbench.run.session import pools_of, session

    say(f"search {request.id}")
    begun = bool(earlier)
    try:
        with session(console.print, folder_of(request.results), pools=pools_of(plan.hardware)) as api:
            console.print(f"UI: {api.ui_url}", soft_wrap=True)
            begun = True

            def measure(run_request: RunRequest) -> str:
                flow_run = asyncio.run(follow(run_request, FOLLOWED, console, api.check))
                if (state := flow_run.state) and state.is_completed():
                    return flow_run.name
                why = (state and state.message) or "the reason is unknown"
                raise GridbenchError(f"run {flow_run.name} did not complete: {why}")

            return searched(request, iter(earlier), measure)
    except (KeyboardInterrupt, GridbenchError):
        if begun:
            say(
                f"search {request.id} is not complete; its measurements are stored, "
                f"continue with: {_again(request)}"
            )
        raise


def _again(request: BisectRequest) -> str:
    """Return the command that continues a search."""
    ours = ("--resume", request.id, f"--resume={request.id}")
    words = [word for word in sys.argv[1:] if word not in ours]
    return shlex.join(["gridbench", *words[:1], "--resume", request.id, *words[1:]])


def searched(
    request: BisectRequest, earlier: Iterator[Store], measure: Callable[[RunRequest], str]
) -> tuple[VersionSearch, NextStep]:
    """Return the rounds of a search and its end; stored rounds come first, and are not measured again.

    Args:
        earlier: its runs so far, oldest first.
        measure: runs the flow `bench` with a request, and returns the run's name.

    Raises:
        GridbenchError: a measurement failed, or a stored run is not of this search.
    """
    from tasks.dispatch.job_notes import spent_usd  # imports Prefect, which is slow

    search, left_usd = VersionSearch(request.names), request.budget_usd
    while isinstance(step := next_step(search), NextMeasurement):
        say(line_of(search, step))
        store = next(earlier, None)
        if store is None or not _is_complete(store, request.versions[step.version], request.id):
            resumed = store.plan.run if store else None
            store = find(request.results, measure(request.run_request(step.version, resumed, left_usd)))
        left_usd = max(left_usd - spent_usd(store), 0.0)
        search = VersionSearch(search.versions, (*search.rounds, round_of(store, step)))
    return search, step


def _is_complete(store: Store, version: Version, id: str) -> bool:
    """Tell whether a stored run has all its records.

    Raises:
        GridbenchError: it measured another version than the search would measure.
    """
    plan = store.plan
    measured = plan.night.version if plan.night else None
    if measured != version:
        raise GridbenchError(
            f"{id} measured {_shown(measured)} in run {plan.run}, but would now measure {_shown(version)}: "
            "resume with the same versions as at the start"
        )
    return complete(store)


def _shown(version: Version | None) -> str:
    return f"{version.name} ({version.image or shlex.join(version.command or ())})" if version else "none"
