"""Open the results store of a run: a new one with its plan, or an earlier one that is resumed."""

import asyncio
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.runtime import flow_run

from tasks.dispatch.flow_runs import measuring
from tasks.errors import GridbenchError
from tasks.planning.channel import Night
from tasks.planning.cluster import Cluster
from tasks.planning.plan import check_budget, make_plan
from tasks.planning.variables import check_variables
from tasks.schema import validated
from tasks.store.bucket import Bucket, folder_of, is_block, send
from tasks.store.store import Store


async def open_store(
    suite: str,
    hardware: list[str],
    baseline: str | None,
    repeats: int | None,
    budget_usd: float | None,
    resume: str | None,
    results: str | None,
    break_even: bool = False,
    cluster: dict[str, Any] | None = None,
    boxes: int = 1,
    night: dict[str, Any] | None = None,
) -> Store:
    """Plan a run and make its folder, or find the folder of the run to resume; names the flow run after it.

    Raises:
        GridbenchError: something asked for doesn't exist, is too expensive, can't be written or is under way.
    """
    folder = folder_of(results)
    bucket = await asyncio.to_thread(Bucket.load, results) if results and is_block(results) else None
    if resume:
        if bucket and not (folder / resume / "plan.json").exists():
            await asyncio.to_thread(bucket.fetch, resume, folder)
        store = Store.open(folder, resume, bucket)
        check_budget(store.plan, budget_usd)
    else:
        named = validated(Cluster, cluster, "cluster") if cluster is not None else None
        tonight = validated(Night, night, "night") if night is not None else None
        asked = (suite, hardware, baseline, repeats, budget_usd)
        plan = make_plan(*asked, break_even=break_even, cluster=named, boxes=boxes, night=tonight)
        await check_variables(plan.hardware)
        store = Store.create(folder, plan, bucket)
    await send(store)  # a bucket that takes nothing is found before anything is paid for
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
    first = min(await measuring(client, run), key=lambda other: (other.start_time, other.id), default=None)
    if first and first.id != me:
        raise GridbenchError(f"run {run} is under way in flow run {first.id}: wait for it or cancel it")
