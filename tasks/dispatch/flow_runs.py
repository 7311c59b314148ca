"""Flow runs: lane jobs, records, lost repeats."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterName,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Cancelling

from tasks.delivery.api_trouble import LOST_TOUCH
from tasks.delivery.job_orders import identity
from tasks.delivery.record_receiver import RecordReceiver
from tasks.store.store import Store

LANE_TAG = "gridbench-lane"
BENCH = FlowFilter(name=FlowFilterName(any_=["bench"]))
PAGE = 200


def run_tag(run: str) -> str:
    """Return the tag of a run's lane jobs and rentals."""
    return f"run:{run}"


def is_final(state: State | None) -> bool:
    return state is not None and state.is_final()


def has_begun(run: FlowRun) -> bool:
    """Return whether a flow run was ever Running, which `start_time` does not show."""
    return run.run_count > 0


async def flow_runs(
    client: PrefectClient, criteria: FlowRunFilter, flows: FlowFilter | None = None
) -> list[FlowRun]:
    """Return them oldest first."""
    runs: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(
            flow_filter=flows, flow_run_filter=criteria, limit=PAGE, offset=len(runs)
        )
        runs += page
        if len(page) < PAGE:
            return sorted(runs, key=_planned_start)


def _planned_start(run: FlowRun) -> datetime:
    return run.expected_start_time or run.created or datetime.max.replace(tzinfo=UTC)


async def measuring(client: PrefectClient, run: str) -> list[FlowRun]:
    """Return runs of `bench` that measure now."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING]))
    named = FlowRunFilter(name=FlowRunFilterName(any_=[run]), state=state)
    return [each for each in await flow_runs(client, named, BENCH) if LANE_TAG not in each.tags]


async def myself_and_bench(
    client: PrefectClient, flow_run_id: UUID, run: str, bench_id: UUID | None
) -> tuple[FlowRun | None, UUID | None]:
    """Return a flow run, and the id of the `bench` that measures.

    One request is enough while the last `bench` goes on.
    """
    ids = [flow_run_id] if bench_id is None else [flow_run_id, bench_id]
    runs = {each.id: each for each in await flow_runs(client, FlowRunFilter(id=FlowRunFilterId(any_=ids)))}
    bench = runs.get(bench_id) if bench_id else None
    if bench is None or bench.state is None or not bench.state.is_running():
        bench = next(iter(await measuring(client, run)), None)
    return runs.get(flow_run_id), bench.id if bench else None


async def lane_jobs(client: PrefectClient, run: str) -> list[FlowRun]:
    """Return them oldest first."""
    return await flow_runs(client, FlowRunFilter(tags=FlowRunFilterTags(all_=[LANE_TAG, run_tag(run)])))


async def stop_jobs(client: PrefectClient, flow_run_ids: Iterable[UUID]) -> None:
    """Have workers stop them; cancel those not started."""
    for flow_run_id in list(flow_run_ids):
        with suppress(*LOST_TOUCH):
            state = (await client.read_flow_run(flow_run_id)).state
            if state and not state.is_final() and not state.is_cancelling():
                change = Cancelling if state.is_running() or state.is_pending() else Cancelled
                await client.set_flow_run_state(
                    flow_run_id, change(message="its bench run is over"), force=True
                )


async def collect(client: PrefectClient, store: Store, jobs: Sequence[FlowRun]) -> list[str]:
    """Return a sentence for each problem and lost repeat.

    Raises:
        GridbenchError: the store can't be written.
    """
    sentences: list[str] = []
    receiver = RecordReceiver(client, store, sentences.append, arrived=lambda record: None)
    orders = await receiver.take_over([job.id for job in jobs])
    done = {identity(record) for record in store.records()[0]}
    for job in jobs:
        left = [repeat for repeat in orders[job.id] if identity(repeat) not in done]
        if left and is_final(job.state) and has_begun(job):
            why = f"{job.state.name}: {job.state.message}" if job.state else "unknown"
            sentences.append(f"{left[0].id} was being measured when its lane job ended {why}")
    return sentences
