"""Start a `bench` run, follow it and cancel it on Ctrl-C."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling
from rich.console import Console
from rich.live import Live
from rich.table import Table

from gridbench.setup.prefect_api import no_answer
from infra.local.errors import LocalStackError
from tasks.delivery.api_trouble import LOST_TOUCH, refused, status_code, words_of
from tasks.dispatch.flow_runs import has_begun
from tasks.errors import GridbenchError
from tasks.planning.request import RunRequest
from tasks.results.format import format_duration

POLL_S = 2.0
STOP_WITHIN_S = 20.0
READ_S = 20.0
FAILING_S = 60.0
HEALTH_S = 5.0
LATE_S = 30.0
PAGE = 200


async def follow(
    request: RunRequest,
    deployment: str,
    console: Console,
    check: Callable[[], str | None],
    estimate_s: float | None = None,
    repeats: int = 1,
) -> FlowRun:
    """Return the final flow run; Ctrl-C cancels it.

    `estimate_s` and `repeats` are of its plan.
    """
    async with get_client() as client:
        run = await _begin(client, deployment, request)
        seen = [run]
        try:
            return await _watch(client, seen, console, check, estimate_s, repeats)
        except (asyncio.CancelledError, KeyboardInterrupt):
            console.print("Stopping the run.")
            await _stop(client, run.id, console)
            raise
        except LocalStackError as error:
            again = (
                f" To continue when it is mended: gridbench resume {seen[0].name}"
                if has_begun(seen[0])
                else ""
            )
            raise GridbenchError(f"{error}{again}") from None


async def _begin(client: PrefectClient, deployment: str, request: RunRequest) -> FlowRun:
    parameters = {"request": request.model_dump(mode="json", exclude_none=True)}
    redeploy = f"run `prefect --no-prompt deploy --name {deployment.rpartition('/')[2]} --name local`"
    try:
        deployed = await client.read_deployment_by_name(deployment)
        return await client.create_flow_run_from_deployment(
            deployed.id, parameters=parameters, tags=["gridbench"]
        )
    except ObjectNotFound:
        raise GridbenchError(f"this Prefect server has no deployment {deployment}; {redeploy}") from None
    except httpx.HTTPError as error:
        if refused(error):
            words = words_of(error)
            raise GridbenchError(f"{words} (if a file in deployments/ is new, {redeploy})") from None
        raise GridbenchError(no_answer(str(client.api_url), error)) from None


async def _watch(
    client: PrefectClient,
    seen: list[FlowRun],
    console: Console,
    check: Callable[[], str | None],
    estimate_s: float | None,
    repeats: int,
) -> FlowRun:
    """Print a line for each finished cell, and a live table in a terminal.

    `seen` holds the last version of the run: its name is that of its folder once it has begun.
    """
    run_id = seen[0].id
    reported: set[str] = set()
    began = started = time.monotonic()
    failing_since: float | None = None
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            if sentence := await asyncio.to_thread(check):  # first, because it can restart the server
                console.print(sentence, markup=False)
            try:
                async with asyncio.timeout(READ_S):
                    run, cells = await client.read_flow_run(run_id), await _cells(client, run_id)
                failing_since, seen[:] = None, [run]
            except LOST_TOUCH as error:
                if refused(error):
                    raise GridbenchError(f"the Prefect API refused a request: {words_of(error)}") from None
                failing_since = await _failing_since(client, error, failing_since)
                if failing_since and time.monotonic() - failing_since > FAILING_S:
                    raise LocalStackError(
                        f"The Prefect API at {client.api_url} has failed for {FAILING_S:.0f} s "
                        f"({words_of(error) or 'no answer'}): its database can be locked, full or damaged."
                    ) from None
                console.print(
                    f"The Prefect API does not answer: {words_of(error) or 'timed out'}", markup=False
                )
                await asyncio.sleep(POLL_S)
                continue
            if run.state and run.state.is_scheduled() and time.monotonic() - started > LATE_S:
                started = float("inf")
                console.print(
                    f"No worker has started the run within {LATE_S:.0f} s: check that a worker serves its work pool."
                )
            clock = progress_text(cells, time.monotonic() - began, estimate_s, repeats)
            _report_ended(cells, reported, console, clock)
            live.update(lanes_table(run, cells, clock), refresh=console.is_terminal)
            if run.state and run.state.is_final():
                return run
            await asyncio.sleep(POLL_S)


async def _failing_since(client: PrefectClient, error: Exception, since: float | None) -> float | None:
    """Return since when a live server fails or hangs with its database; None if it is down."""
    failed = status_code(error) in (httpx.codes.INTERNAL_SERVER_ERROR, httpx.codes.SERVICE_UNAVAILABLE)
    if not failed and not (
        isinstance(error, TimeoutError | httpx.TimeoutException) and await _is_there(client)
    ):
        return None
    return time.monotonic() if since is None else since


async def _is_there(client: PrefectClient) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(HEALTH_S):
            return await client.api_healthcheck() is None
    return False


def _report_ended(cells: list[TaskRun], reported: set[str], console: Console, clock: str) -> None:
    for cell in cells:
        if cell.name not in reported and cell.state and cell.state.is_final():
            reported.add(cell.name)
            suffix = "" if console.is_terminal else f" [{clock}]"
            console.print(f"{cell_text(cell)}{suffix}", highlight=False, markup=False, soft_wrap=True)


def cell_text(cell: TaskRun) -> str:
    """Return a finished cell with its time and ±, or with its verdict and first reason.

    The message of its state is the time, then the reasons; the name of its state is its verdict.
    """
    state = cell.state
    assert state is not None
    first, _, reasons = (state.message or "").partition("; ")
    if not state.is_completed() or not reasons or state.name in ("Ok", "Completed"):
        return f"{cell.name}: {first}" if state.is_completed() else f"{cell.name}: {state.name}: {first}"
    return f"{cell.name}: {first} ({str(state.name).lower()})"


def progress_text(cells: list[TaskRun], elapsed_s: float, estimate_s: float | None, repeats: int = 1) -> str:
    """Return the finished cells, the elapsed time and the remaining time.

    A lane measures each cell once before it repeats one. The remaining time follows from the slowest lane's
    measured time, and from the plan's estimate until each lane has ended a cell.
    """
    lanes: dict[str, list[bool]] = {}
    for cell in cells:
        lanes.setdefault(_lane_of(cell), []).append(bool(cell.state and cell.state.is_final()))
    shares = [
        (repeats - 1 + sum(ended) / len(ended)) / repeats if any(ended) else 0.0 for ended in lanes.values()
    ]
    share = min(shares, default=0.0)
    left_s = elapsed_s / share - elapsed_s if share else (estimate_s or 0.0) - elapsed_s
    left = f", about {format_duration(left_s)} left" if left_s > 0 and share < 1 else ""
    done = sum(map(sum, lanes.values()))
    return f"{done} of {len(cells)} cells, {format_duration(elapsed_s)} elapsed{left}"


def _lane_of(cell: TaskRun) -> str:
    return cell.name.split("/")[0]


async def _cells(client: PrefectClient, run_id: UUID) -> list[TaskRun]:
    of_run = FlowRunFilter(id=FlowRunFilterId(any_=[run_id]))
    tasks: list[TaskRun] = []
    while True:
        page = await client.read_task_runs(flow_run_filter=of_run, limit=PAGE, offset=len(tasks))
        tasks += page
        if len(page) < PAGE:
            return [task for task in tasks if task.task_key.startswith("measure")]


def lanes_table(run: FlowRun, cells: list[TaskRun], clock: str) -> Table:
    table = Table(title=f"{run.name}: {clock}", title_justify="left")
    for column in ("lane", "cells", "finished", "verdicts", "latest"):
        table.add_column(column, overflow="fold")
    for hardware in sorted(set(map(_lane_of, cells))):
        lane = [cell for cell in cells if _lane_of(cell) == hardware]
        done = [cell for cell in lane if cell.state and cell.state.is_final()]
        ended = Counter(cell.state.name for cell in done if cell.state)
        newest = max(done, key=lambda cell: cell.state.timestamp, default=None)  # type: ignore[union-attr]
        table.add_row(
            hardware,
            str(len(lane)),
            str(len(done)),
            ", ".join(f"{count} {name}" for name, count in ended.most_common()),
            newest.name.partition("/")[2] if newest else "",
        )
    return table


async def _stop(client: PrefectClient, run_id: UUID, console: Console) -> None:
    with suppress(TimeoutError, *LOST_TOUCH):
        async with asyncio.timeout(STOP_WITHIN_S):
            state: State[Any] = Cancelling(message="stopped from the terminal")
            await client.set_flow_run_state(run_id, state, force=True)
            while not ((run := await client.read_flow_run(run_id)).state and run.state.is_final()):
                await asyncio.sleep(0.5)
            if has_begun(run):
                console.print(
                    f"Measured repeats are kept. To continue: gridbench resume {run.name}", highlight=False
                )
