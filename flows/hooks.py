"""Hooks that clean up after a cancelled or crashed run."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

from prefect import Flow, State, get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import flow_run_logger
from prefect.states import Cancelled

from tasks.dispatch.flow_runs import (
    LANE_TAG,
    collect,
    flow_runs,
    is_final,
    lane_jobs,
    measuring,
    stop_jobs,
)
from tasks.dispatch.job_notes import note_jobs
from tasks.dispatch.rental_labels import TAG
from tasks.dispatch.rented_boxes import release, rental_runs
from tasks.errors import GridbenchError
from tasks.store.address import ResultsAddress
from tasks.store.bucket import Bucket, send
from tasks.store.store import Store


async def collect_and_stop(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Stop a `bench`'s lane jobs, give back its boxes, and store the records that arrived."""
    async with get_client() as client:
        run = (await client.read_flow_run(flow_run.id)).name  # `flow_run` can have an older name
        followed = await _followed_by(client, flow_run.id, run)
        under_way = [job.id for job in followed if LANE_TAG in job.tags and not is_final(job.state)]
        await stop_jobs(client, under_way)
        await release(client, [rental for rental in followed if TAG in rental.tags], after=under_way)
        if not followed:
            return
        given = flow_run.parameters.get("request") or flow_run.parameters
        results = ResultsAddress.parse(given.get("results"))
        store = Store.open(results.folder, run, await asyncio.to_thread(Bucket.of, results))
        for sentence in await collect(client, store, await lane_jobs(client, store.plan.run)):
            flow_run_logger(flow_run, flow).warning(sentence)
        await note_jobs(client, store)
        await send(store)


async def _followed_by(client: PrefectClient, bench_id: UUID, run: str) -> list[FlowRun]:
    """Return the lane jobs and rentals that a `bench` started, or took over from earlier ones of its run.

    If another `bench` measures the run now, that one follows them.
    """
    mine = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[bench_id]))
    started = [each for each in await flow_runs(client, mine) if {LANE_TAG, TAG} & {*each.tags}]
    if any(other.id != bench_id for other in await measuring(client, run)):
        return started
    every = [*started, *await lane_jobs(client, run), *await rental_runs(client, run)]
    return list({each.id: each for each in every}.values())


async def end_children(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """End the unfinished `bench` runs of a night, and their lanes."""
    async with get_client() as client:
        mine = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run.id]))
        children = [child for child in await flow_runs(client, mine) if not is_final(child.state)]
        for child in children:
            with suppress(GridbenchError):  # its folder might not exist yet
                await collect_and_stop(flow, child, state)
            over: State[Any] = Cancelled(message=f"its night ended {state.name}")
            await client.set_flow_run_state(child.id, over, force=True)
