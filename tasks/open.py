"""Open the results store of a run: a new one with its plan, or an earlier one that is resumed."""

from pathlib import Path

from prefect import get_client
from prefect.runtime import flow_run

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
        GridbenchError: something asked for doesn't exist, is too expensive, or can't be written.
    """
    folder = Path(results) if results else DEFAULT
    if resume:
        store = Store.open(folder, resume)
        check_budget(store.plan, budget_usd)
    else:
        store = Store.create(folder, make_plan(suite, hardware, baseline, repeats, budget_usd))
    async with get_client() as client:
        await client.update_flow_run(flow_run.get_id(), name=store.plan.run)
    return store
