"""gridbench bisect: the version that changed a case's time, by measuring as few versions as it takes."""

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
from gridbench.watch.versions import about, brought, versions_between
from tasks.errors import GridbenchError
from tasks.planning.channel import Night, Version
from tasks.planning.hardware import hardware_names, load_suite_checked
from tasks.planning.plan import Plan
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.regressions.baseline import LEAST_RERUNS, RERUNS
from tasks.regressions.bisect import Found, Measure, Search, Step, most_rounds, next_step
from tasks.regressions.bisect_runs import complete, round_of, runs_of
from tasks.schema import hint
from tasks.store.bucket import find, folder_of
from tasks.store.store import DEFAULT, Store

FOLLOWED = "bench/quick"  # the deployment of `bench` that measures, whatever the suite

Case = Annotated[str, typer.Argument(help="Id of a case of the suite, such as matmul/n=2000/fp32")]
Good = Annotated[str, typer.Argument(help="A version, before the change")]
Bad = Annotated[str, typer.Argument(help="A later one, after it")]
ImageTemplate = Annotated[
    str | None, typer.Option(help="Image of a version, such as 'registry/gridbench:{version}'")
]
CommandTemplate = Annotated[
    str | None,
    typer.Option(help="Without images: its command, such as '/envs/{version}/bin/python -P -m workloads'"),
]
Versions = Annotated[
    str | None,
    typer.Option(help="Oldest first: a file with one in a line, or v1,v2,v3; by default git's commits"),
]
Processes = Annotated[
    int | None, typer.Option(help=f"Fresh processes of a measurement; {RERUNS} times the suite's by default")
]


@dataclass(frozen=True, slots=True)
class Hunt:
    """What is searched, and where.

    Attributes:
        versions: oldest first, GOOD and BAD included.
        repeats: fresh processes that each measurement has.
        budget_usd: for all measurements together.
        id: what all its runs are kept under.
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
        """Of the versions."""
        return tuple(version.name for version in self.versions)

    def night(self, version: int) -> Night:
        """What makes a run a part of this search."""
        return Night(confirms=self.id, cases=(self.case,), version=self.versions[version])

    def request(self, version: int, resumed: str | None = None, left_usd: float | None = None) -> RunRequest:
        """The request for one measurement, or for what an earlier run of it lacks."""
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
        """One measurement.

        Raises:
            GridbenchError: it can't be made.
        """
        return make_plan(self.request(version))


def bisect(
    case: Case,
    good: Good,
    bad: Bad,
    on: Annotated[str, typer.Option(help=f"Hardware: {', '.join(hardware_names())}")],
    suite: Annotated[str, typer.Option(help="That has the case")] = "nightly",
    image_template: ImageTemplate = None,
    command_template: CommandTemplate = None,
    versions: Versions = None,
    repeats: Processes = None,
    budget_usd: Annotated[
        float, typer.Option(help="USD for all of it: refuse to start above it, stop once it is spent")
    ] = 5.0,
    results: Results = DEFAULT,
    resume: Annotated[str | None, typer.Option(help="Go on with this search, which was interrupted")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it will take and stop")] = False,
) -> None:
    """Find the version between GOOD and BAD that made CASE slower, or faster, by measuring some of them.

    Exit codes:

    0: it is found and confirmed

    1: there is no change, or it is not narrowed down to one version, or not confirmed

    2: the command was given something wrong, or could not go on
    """
    names, commits = versions_between(good, bad, versions)
    wanted, count = brought(names, image_template, command_template), _repeats(case, suite, repeats)
    hunt = Hunt(case, on, suite, wanted, count, budget_usd, results, _named(resume))
    plan = _checked(hunt)
    say(plan_text(hunt.names, plan))
    if dry_run:
        return
    check_reach(plan.hardware)
    search, step = _hunted(hunt, _earlier(hunt) if resume else [], plan)
    raise typer.Exit(0 if _tell(case, search, step, commits) else 1)


def _tell(case: str, search: Search, step: Step, commits: bool) -> bool:
    """Print what is found; returns whether it is one version, and confirmed."""
    log_or_screen().print(table(case, search))
    for sentence in ending(case, search, step):
        say(sentence)
    if not isinstance(step, Found):
        return False
    if commits:
        say(about(search.versions[step.first_bad]))
    return not step.doubt and not step.skipped


def _named(resume: str | None) -> str:
    """The name of a search: a new one, or that of the one to go on with.

    Raises:
        GridbenchError: it is none of ours.
    """
    if resume is None:
        return f"bisect-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    if not re.fullmatch(r"bisect-[\w.-]{1,80}", resume):
        raise GridbenchError(f"resume={resume!r} is no search; each says its name, bisect-…, as it begins")
    return resume


def _repeats(case: str, suite: str, repeats: int | None) -> int:
    """Processes of a measurement.

    Raises:
        GridbenchError: they are too few to tell anything, or the suite lacks the case.
    """
    chosen = load_suite_checked(suite)
    known = [one.id for one in chosen.cases]
    if case not in known:
        raise GridbenchError(f"suite {suite} has no case {case!r}; {hint(case, known)}")
    if repeats is not None and repeats < LEAST_RERUNS:
        raise GridbenchError(f"repeats={repeats} must be {LEAST_RERUNS} or more to tell a change from chance")
    return repeats or RERUNS * chosen.repeats


def _checked(hunt: Hunt) -> Plan:
    """The plan of one measurement.

    Raises:
        GridbenchError: the machine can't measure the case, or all of it is above the budget.
    """
    plan = hunt.plan(0)
    if plan.skips:
        raise GridbenchError(f"{hunt.hardware} can't measure {hunt.case}: {plan.skips[0].reason}")
    if not hunt.budget_usd >= 0:
        raise GridbenchError(f"budget_usd={hunt.budget_usd} must be 0 or more")
    most = most_rounds(len(hunt.versions))
    if most * plan.estimate_usd > hunt.budget_usd:
        raise GridbenchError(
            f"the estimate of {most * plan.estimate_usd:.2f} USD for {most} measurements is above "
            f"budget_usd={hunt.budget_usd:g}; raise it, or take fewer versions or repeats"
        )
    return plan


def _earlier(hunt: Hunt) -> list[Store]:
    """The runs that an interrupted search has left, oldest first.

    Raises:
        GridbenchError: there are none, or they measured something else.
    """
    found = runs_of(hunt.results, hunt.id)
    if not found:
        raise GridbenchError(f"nothing is kept of {hunt.id!r} in {hunt.results}; start without --resume")
    wanted = (hunt.suite, [hunt.hardware], (hunt.case,), hunt.repeats)
    for plan in (store.plan for store in found):
        night = plan.night or Night()
        if (plan.suite, [m.name for m in plan.hardware], night.cases, plan.repeats) != wanted:
            raise GridbenchError(
                f"run {plan.run} of {hunt.id} measured {', '.join(night.cases) or plan.suite} on "
                f"{plan.baseline} with {plan.repeats} repeats: resume with the options that it began with"
            )
    return found


def _hunted(hunt: Hunt, earlier: list[Store], plan: Plan) -> tuple[Search, Step]:
    """Measures until there is an end; says how to go on with what could not be ended."""
    from gridbench.run.follow import follow
    from gridbench.run.session import pools_of, session

    say(f"search {hunt.id}")
    begun = bool(earlier)
    try:
        with session(console.print, folder_of(hunt.results), pools=pools_of(plan.hardware)) as api:
            console.print(f"UI: {api.ui_url}", soft_wrap=True)
            begun = True

            def measured(request: RunRequest) -> str:
                flow_run = asyncio.run(follow(request, FOLLOWED, console, api.check))
                if (state := flow_run.state) and state.is_completed():
                    return flow_run.name
                why = (state and state.message) or "no reason is known"
                raise GridbenchError(f"run {flow_run.name} was not ended: {why}")

            return searched(hunt, iter(earlier), measured)
    except (KeyboardInterrupt, GridbenchError):
        if begun:
            say(f"search {hunt.id} is not ended; what was measured is kept: {_again(hunt)}")
        raise


def _again(hunt: Hunt) -> str:
    """The command that goes on with a search."""
    ours = ("--resume", hunt.id, f"--resume={hunt.id}")
    words = [word for word in sys.argv[1:] if word not in ours]
    return shlex.join(["gridbench", *words[:1], "--resume", hunt.id, *words[1:]])


def searched(
    hunt: Hunt, earlier: Iterator[Store], measured: Callable[[RunRequest], str]
) -> tuple[Search, Step]:
    """The rounds of a search and its end; those that are stored come first, and are not measured again.

    Args:
        earlier: its runs so far, oldest first.
        measured: has the flow `bench` run with a request; returns the run's name.

    Raises:
        GridbenchError: something could not be measured, or what is stored is not of this search.
    """
    from tasks.dispatch.job_notes import spent_usd  # imports Prefect, which is slow

    search, left_usd = Search(hunt.names), hunt.budget_usd
    while isinstance(step := next_step(search), Measure):
        say(line_of(search, step))
        store = next(earlier, None)
        if store is None or not _whole(store, hunt.versions[step.version], hunt.id):
            resumed = store.plan.run if store else None
            store = find(hunt.results, measured(hunt.request(step.version, resumed, left_usd)))
        left_usd = max(left_usd - spent_usd(store), 0.0)
        search = Search(search.versions, (*search.rounds, round_of(store, step)))
    return search, step


def _whole(store: Store, version: Version, id: str) -> bool:
    """Whether a stored run has all its records.

    Raises:
        GridbenchError: it is of another version than the search would measure.
    """
    plan = store.plan
    there = plan.night.version if plan.night else None
    if there != version:
        raise GridbenchError(
            f"{id} measured {_shown(there)} in run {plan.run}, where it would now measure {_shown(version)}: "
            "resume with the versions that it began with"
        )
    return complete(store)


def _shown(version: Version | None) -> str:
    return f"{version.name} ({version.image or shlex.join(version.command or ())})" if version else "none"
