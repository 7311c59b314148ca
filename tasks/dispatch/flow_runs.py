"""Queries for the flow runs of a run: its lane jobs, their records, and repeats that were cut short."""

from collections.abc import Sequence
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterName,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from pydantic import TypeAdapter

from tasks.dispatch.mailbox import Inbox
from tasks.store.store import Store
from workloads.harness.records.repeat import Repeat

REPEATS = TypeAdapter(list[Repeat])  # as a lane's parameter
LANE_TAG = "gridbench-lane"
PAGE = 200


def run_tag(run: str) -> str:
    """Return the tag that all lane jobs and rentals of a run carry."""
    return f"run:{run}"


def is_final(state: State | None) -> bool:
    """Return whether a flow run is over."""
    return state is not None and state.is_final()


def repeats_of(job: FlowRun) -> list[Repeat]:
    """Return the repeats that a lane job was asked to measure, in its order."""
    return REPEATS.validate_python(job.parameters["repeats"])


async def flow_runs(client: PrefectClient, criteria: FlowRunFilter) -> list[FlowRun]:
    """Return every flow run that meets the criteria, from all pages, oldest first."""
    runs: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(flow_run_filter=criteria, limit=PAGE, offset=len(runs))
        runs += page
        if len(page) < PAGE:
            return sorted(runs, key=_planned_start)


def _planned_start(run: FlowRun) -> datetime:
    return run.expected_start_time or run.created or datetime.max.replace(tzinfo=UTC)


async def measuring(client: PrefectClient, run: str) -> list[FlowRun]:
    """Return the flow runs of `bench` that measure a run now."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING]))
    return await flow_runs(client, FlowRunFilter(name=FlowRunFilterName(any_=[run]), state=state))


async def lane_jobs(client: PrefectClient, run: str) -> list[FlowRun]:
    """Return every lane job that any `bench` has started for a run, oldest first."""
    return await flow_runs(client, FlowRunFilter(tags=FlowRunFilterTags(all_=[LANE_TAG, run_tag(run)])))


async def collect(client: PrefectClient, store: Store, jobs: Sequence[FlowRun]) -> list[str]:
    """Store the records that lane jobs have sent; return a sentence for each problem and each lost repeat.

    Raises:
        GridbenchError: the store can't be written.
    """
    records, sentences = await Inbox(client).new([job.id for job in jobs]) if jobs else ([], [])
    for record in records:
        store.add(record)
    done = {(r.hardware, r.case, r.repeat) for r in store.records()[0]}
    for job in jobs:
        left = [r for r in repeats_of(job) if (r.hardware, r.case, r.repeat) not in done]
        if left and is_final(job.state) and job.start_time:
            why = f"{job.state.name}: {job.state.message}" if job.state else "unknown"
            sentences.append(f"{left[0].id} was being measured when its lane job ended {why}")
    return sentences
