"""The command `bisect`."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gridbench.run.box import BOX, with_boxes
from gridbench.run.reach import check_code_reach, check_reach, suite_for_flow
from gridbench.terminal import Results, console, log_or_screen, say
from gridbench.watch.bisect_request import BisectRequest, checked_plan, process_count, search_id
from gridbench.watch.bisect_text import ending, line_of, plan_text, table
from gridbench.watch.checkouts import check_out, kept_until_the_end, script_folder, script_versions
from gridbench.watch.versions import describe_commit, runnable_versions, versions_between
from tasks.errors import GridbenchError
from tasks.planning.channel import Night, Version
from tasks.planning.hardware import hardware_names, load_suite_checked
from tasks.planning.plan import Plan
from tasks.planning.request import RunRequest
from tasks.regressions.baseline import RERUNS
from tasks.regressions.bisect import (
    FirstBadVersion,
    NextMeasurement,
    NextStep,
    VersionSearch,
    next_step,
)
from tasks.regressions.bisect_runs import complete, rounds_of, runs_of
from tasks.results.metrics import measured_case
from tasks.store.address import DEFAULT
from tasks.store.bucket import find
from tasks.store.store import Store

FOLLOWED = "bench/quick"  # the deployment of `bench` that measures every suite

Case = Annotated[str, typer.Argument(help="Id of a case of the suite, such as matmul/n=2000/fp32")]
Good = Annotated[str, typer.Argument(help="A version from before the change")]
Bad = Annotated[str, typer.Argument(help="A later version, from after the change")]
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


def bisect(
    case: Case,
    good: Good,
    bad: Bad,
    on: Annotated[str, typer.Option(help=f"Hardware: {', '.join(hardware_names())}; or {BOX}")],
    suite: Annotated[
        str, typer.Option(help="Suite that has the case, or the path of the suite's file")
    ] = "nightly",
    image_template: ImageTemplate = None,
    command_template: CommandTemplate = None,
    versions: Versions = None,
    repeats: Processes = None,
    budget_usd: Annotated[
        float, typer.Option(help="USD for all measurements: refuse to start above it, stop once it is spent")
    ] = 5.0,
    results: Results = DEFAULT,
    resume: Annotated[str | None, typer.Option(help="Continue this interrupted search")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the estimated effort and stop")] = False,
) -> None:
    """Find the version that changed the time of a case.

    For your own script, the versions are commits of its repository, and each is checked out while it is
    measured. Other cases need --image-template or --command-template.

    Exit codes:

    0: the version is found and confirmed

    1: the versions do not differ, or the change is not narrowed down to one version, or it is not confirmed

    2: an argument is wrong, or a measurement failed
    """
    suite, count = suite_for_flow(suite), process_count(case, suite, repeats)
    folder = None if image_template or command_template else script_folder(case, suite)
    names, commits = versions_between(good, bad, versions, folder)
    runnable = (
        script_versions(names, folder)
        if folder
        else runnable_versions(names, image_template, command_template)
    )
    name = search_id(resume)
    asked = with_boxes(RunRequest(hardware=(on,)))
    in_turns = folder is not None or (command_template is not None and script_folder(case, suite) is None)
    request = BisectRequest(
        case, asked.hardware[0], suite, runnable, count, budget_usd, results, name, asked.found, in_turns
    )
    with kept_until_the_end(runnable, folder):
        check_out(request.version(request.first), folder)
        plan = checked_plan(request)
        check_code_reach(plan, results)
        say(plan_text(request.names, plan))
        if dry_run:
            return
        check_reach(plan.hardware)
        search, step = _run_search(request, _earlier(request) if resume else [], plan, folder)
    raise typer.Exit(0 if _report(case, search, step, commits, folder) else 1)


def _report(
    case: str, search: VersionSearch, step: NextStep, commits: bool, folder: Path | None = None
) -> bool:
    log_or_screen().print(table(case, search))
    for sentence in ending(case, search, step):
        say(sentence)
    if not isinstance(step, FirstBadVersion):
        return False
    if commits:
        say(describe_commit(search.versions[step.first_bad], folder))
    return not step.doubt and not step.skipped


def _earlier(request: BisectRequest) -> list[Store]:
    earlier = runs_of(request.results, request.id)
    if not earlier:
        raise GridbenchError(f"{request.results} has no run of {request.id!r}; start without --resume")
    cases = (measured_case(request.case),)
    expected = (load_suite_checked(request.suite).name, [request.hardware], cases, request.repeats)
    for plan in (store.plan for store in earlier):
        night = plan.night or Night()
        if (plan.suite, [m.name for m in plan.hardware], night.cases, plan.repeats) != expected:
            raise GridbenchError(
                f"run {plan.run} of {request.id} measured {', '.join(night.cases) or plan.suite} on "
                f"{plan.baseline} with {plan.repeats} repeats: resume with the same options as at the start"
            )
    return earlier


def _run_search(
    request: BisectRequest, earlier: list[Store], plan: Plan, folder: Path | None
) -> tuple[VersionSearch, NextStep]:
    from gridbench.run.follow import follow
    from gridbench.run.outcome import went_to_its_end
    from gridbench.run.remote import open_session

    say(f"search {request.id}")
    begun = bool(earlier)
    try:
        with open_session(plan.hardware, request.results.folder, say) as api:
            console.print(f"UI: {api.ui_url}", soft_wrap=True)
            begun = True

            def measure(run_request: RunRequest) -> str:
                if run_request.night and run_request.night.version:
                    check_out(run_request.night.version, folder)
                flow_run = asyncio.run(follow(run_request, FOLLOWED, console, api.check))
                if went_to_its_end(flow_run):
                    return flow_run.name
                why = (flow_run.state and flow_run.state.message) or "the reason is unknown"
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
    ours = ("--resume", request.id, f"--resume={request.id}")
    words = [word for word in sys.argv[1:] if word not in ours]
    return shlex.join(["gridbench", *words[:1], "--resume", request.id, *words[1:]])


def searched(
    request: BisectRequest, earlier: Iterator[Store], measure: Callable[[RunRequest], str]
) -> tuple[VersionSearch, NextStep]:
    """Return the rounds of a search and its end; stored rounds are not measured again.

    `earlier` is oldest first; `measure` returns the run's name.
    """
    from tasks.dispatch.job_notes import spent_usd  # imports Prefect, which is slow

    search, left_usd = VersionSearch(request.names, in_turns=request.in_turns), request.budget_usd
    while isinstance(step := next_step(search), NextMeasurement):
        say(line_of(search, step))
        store = next(earlier, None)
        if store is None or not _is_complete(store, request.version(step), request.id):
            resumed = store.plan.run if store else None
            store = find(request.results, measure(request.run_request(step, resumed, left_usd)))
        left_usd = max(left_usd - spent_usd(store), 0.0)
        search = replace(search, rounds=(*search.rounds, *rounds_of(store, step, request.case)))
    return search, step


def _is_complete(store: Store, version: Version, id: str) -> bool:
    plan = store.plan
    measured = plan.night.version if plan.night else None
    if measured != version:
        raise GridbenchError(
            f"{id} measured {_shown(measured)} in run {plan.run}, but would now measure {_shown(version)}: "
            "resume with the same versions as at the start"
        )
    return complete(store)


def _shown(version: Version | None) -> str:
    if version is None:
        return "none"
    where = version.image or version.folder or shlex.join(version.command or ())
    return f"{version.name} ({where})" + (
        f" in turns with {_shown(version.partner)}" if version.partner else ""
    )
