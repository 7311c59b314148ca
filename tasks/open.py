"""Open the results store of a run: a new one with its plan, or an earlier one that is resumed."""

from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterName,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.runtime import flow_run

from tasks.aftermath import flow_runs
from tasks.errors import GridbenchError
from tasks.plan import check_budget, make_plan
from tasks.store import DEFAULT, Store


async def open_store(
    suite: str,
    hardware: list[str],
    baseline: str | None,
    repeats: int | None,
    budget_usd: float | None,
    resume: str | None,
    results: str | None,
) -> Store:
    """Plan a run and make its folder, or find the folder of the run to resume; names the flow run after it.

    Raises:
        GridbenchError: something asked for doesn't exist, is too expensive, can't be written or is under way.
    """
    folder = Path(results) if results else DEFAULT
    if resume:
        store = Store.open(folder, resume)
        check_budget(store.plan, budget_usd)
    else:
        store = Store.create(folder, make_plan(suite, hardware, baseline, repeats, budget_usd))
    async with get_client() as client:
        me = UUID(flow_run.get_id())
        await client.update_flow_run(me, name=store.plan.run)
        await _take_turns(client, store.plan.run, me)
    return store


async def _take_turns(client: PrefectClient, run: str, me: UUID) -> None:
    """Refuse to go on while another flow run measures this run: they would measure the same.

    Raises:
        GridbenchError: one does, and it was first.
    """
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING]))
    wanted = FlowRunFilter(name=FlowRunFilterName(any_=[run]), state=state)
    first = min(await flow_runs(client, wanted), key=lambda other: (other.start_time, other.id), default=None)
    if first and first.id != me:
        raise GridbenchError(f"run {run} is under way in flow run {first.id}: wait for it or cancel it")
