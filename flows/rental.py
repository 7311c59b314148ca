"""Flows for boxes at Lambda Cloud."""

import sys
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from anyio.from_thread import start_blocking_portal
from prefect import Flow, State, flow, get_client, get_run_logger
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import flow_run_logger
from prefect.runtime import flow_run as this_run
from prefect.states import Completed, Failed

from flows.holding import NAME, REFUSED, hold
from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.errors import LambdaError
from infra.lambda_cloud.janitor import sweep
from infra.lambda_cloud.leftover import delete_block, return_all, sweep_blocks
from infra.lambda_cloud.settings import HoldSettings
from infra.lambda_cloud.shared_rate import shared_rate
from infra.workers.base.retry import call_until_answered
from tasks.dispatch.rental_labels import PREFIX
from tasks.dispatch.rental_order import RentalOrder

RETURNED = f"{PREFIX}returned"


async def give_back_all(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Give back everything that a cancelled or crashed `rental` has left."""
    say = flow_run_logger(flow_run, flow).warning
    async with get_client() as client:
        labels = (await call_until_answered(client.read_flow_run, flow_run.id)).labels
        name = labels.get(NAME)
        if not isinstance(name, str):
            return  # it had not begun
        if RETURNED not in labels:
            try:
                async with LambdaApi(api_key(), api_url(), HoldSettings().api, shared_rate) as api:
                    await return_all(api, name, say)
            except LambdaError as error:
                say(str(error))
                return
            returned = {RETURNED: datetime.now(UTC).isoformat()}
            await call_until_answered(client.update_flow_run_labels, flow_run.id, returned)
        await call_until_answered(delete_block, client, name)


@flow(
    name="rental",
    description="Rents a box at Lambda Cloud for one lane, holds it, and gives it back.",
    on_cancellation=[give_back_all],
    on_crashed=[give_back_all],
)
def rental(asked: RentalOrder) -> State[None]:
    """Rent a machine and hold it until it is released, lost or due, or its run has ended.

    It is not async: Prefect ends a run by an exception in the main thread, which would break an event loop
    while the box is given back. So the loop has its own thread, which is cancelled and waited for.
    """
    me, say = UUID(str(this_run.get_id())), get_run_logger().info
    with start_blocking_portal() as portal:
        return portal.call(hold, asked, me, say)


@flow(
    name="janitor",
    description="Returns rented machines past their deadline at Lambda Cloud, and removes leftover keys.",
)
async def janitor() -> State[None]:
    """Look once for boxes, SSH keys and Secret blocks past their deadline."""
    say, now = get_run_logger().warning, datetime.now(UTC)
    try:
        async with LambdaApi(api_key(), api_url(), HoldSettings().api, shared_rate) as api:
            swept = await sweep(api, now, say)
    except LambdaError as error:
        return Failed(name=REFUSED, message=str(error))
    async with get_client() as client:
        blocks = await sweep_blocks(client, now)
    for name in blocks:
        say(f"the Secret block {name} was left over and has been deleted")
    if swept.problems:
        return Failed(message="; ".join(swept.problems))
    keys = len(swept.removed_keys) + len(blocks)
    done = f"gave back {len(swept.returned)} boxes and removed {keys} keys"
    return Completed(
        message=done if swept.returned or keys else "no machine of Gridbench is overdue at Lambda Cloud"
    )


if __name__ == "__main__":
    sys.exit("run this flow through Prefect: prefect deployment run rental/lambda")
