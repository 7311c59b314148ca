"""Start a `bench` run, follow it with a live table, and cancel it on Ctrl-C."""

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

from tasks.delivery.api_trouble import LOST_TOUCH, refused, words_of
from tasks.dispatch.flow_runs import has_begun
from tasks.errors import GridbenchError
from tasks.planning.request import RunRequest

POLL_S = 2.0
STOP_WITHIN_S = 20.0
LATE_S = 30.0
PAGE = 200


async def follow(
    request: RunRequest, deployment: str, console: Console, check: Callable[[], str | None]
) -> FlowRun:
    """Run a deployment of `bench` to its end; return the flow run. Ctrl-C cancels it and waits for its end.

    Raises:
        GridbenchError: the API does not answer, or refuses the run.
    """
    async with get_client() as client:
        run = await _begin(client, deployment, request)
        try:
            return await _watch(client, run.id, console, check)
        except (asyncio.CancelledError, KeyboardInterrupt):
            console.print("stopping the run")
            await _stop(client, run.id, console)
            raise


async def _begin(client: PrefectClient, deployment: str, request: RunRequest) -> FlowRun:
    parameters = {"request": request.model_dump(mode="json", exclude_none=True)}
    redeploy = f"run `prefect --no-prompt deploy --name {deployment.rpartition('/')[2]} --name local`"
    try:
        deployed = await client.read_deployment_by_name(deployment)
        return await client.create_flow_run_from_deployment(
            deployed.id, parameters=parameters, tags=["gridbench"]
        )
    except ObjectNotFound:
        raise GridbenchError(f"deployment {deployment} is not on this Prefect server; {redeploy}") from None
    except httpx.HTTPError as error:
        if refused(error):
            words = words_of(error)
            raise GridbenchError(f"{words} (where a file in deployments/ is new, {redeploy})") from None
        raise GridbenchError(f"the Prefect API at {client.api_url} does not answer: {error}") from None


async def _watch(
    client: PrefectClient, run_id: UUID, console: Console, check: Callable[[], str | None]
) -> FlowRun:
    """Poll until the run has ended; show a live table in a terminal, and a line per cell elsewhere."""
    reported: set[str] = set()
    started = time.monotonic()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            if sentence := await asyncio.to_thread(check):  # first, because it may restart the server
                console.print(sentence, markup=False)
            try:
                run, cells = await client.read_flow_run(run_id), await _cells(client, run_id)
            except LOST_TOUCH as error:
                if refused(error):
                    raise GridbenchError(f"the Prefect API refuses: {words_of(error)}") from None
                console.print(f"the Prefect API does not answer: {error}", markup=False)
                await asyncio.sleep(POLL_S)
                continue
            if run.state and run.state.is_scheduled() and time.monotonic() - started > LATE_S:
                started = float("inf")
                console.print(
                    f"no worker has taken the run for {LATE_S:.0f} s: does one serve its work pool?"
                )
            _report_ended(cells, reported, console)
            live.update(lanes_table(run, cells), refresh=console.is_terminal)
            if run.state and run.state.is_final():
                return run
            await asyncio.sleep(POLL_S)


def _report_ended(cells: list[TaskRun], reported: set[str], console: Console) -> None:
    """Print a line for each cell that has ended since the last call, unless a live table shows them."""
    for cell in cells:
        if cell.name not in reported and cell.state and cell.state.is_final():
            reported.add(cell.name)
            if not console.is_terminal:
                console.print(f"{cell.name}: {cell.state.name}", highlight=False, markup=False)


async def _cells(client: PrefectClient, run_id: UUID) -> list[TaskRun]:
    """Return the task runs that measure cells."""
    of_run = FlowRunFilter(id=FlowRunFilterId(any_=[run_id]))
    tasks: list[TaskRun] = []
    while True:
        page = await client.read_task_runs(flow_run_filter=of_run, limit=PAGE, offset=len(tasks))
        tasks += page
        if len(page) < PAGE:
            return [task for task in tasks if task.task_key.startswith("measure")]


def lanes_table(run: FlowRun, cells: list[TaskRun]) -> Table:
    """Return a table with one row per lane: cells done, how they ended, and the newest one."""
    table = Table(title=run.name, title_justify="left")
    for column in ("lane", "cells", "done", "how they ended", "newest"):
        table.add_column(column, overflow="fold")
    for hardware in sorted({cell.name.split("/")[0] for cell in cells}):
        lane = [cell for cell in cells if cell.name.split("/")[0] == hardware]
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
    """Cancel the run, wait up to STOP_WITHIN_S for its end, and say how to continue it."""
    with suppress(TimeoutError, *LOST_TOUCH):
        async with asyncio.timeout(STOP_WITHIN_S):
            state: State[Any] = Cancelling(message="stopped from the terminal")
            await client.set_flow_run_state(run_id, state, force=True)
            while not ((run := await client.read_flow_run(run_id)).state and run.state.is_final()):
                await asyncio.sleep(0.5)
            if has_begun(run):
                console.print(f"what was measured is kept: gridbench resume {run.name}", highlight=False)
