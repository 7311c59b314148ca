"""A job's order: its repeats, as an input of its flow run.

Polled lists of flow runs contain parameters, but no inputs. An input can be as large as a request: 5 MiB at
Prefect Cloud.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from pydantic import TypeAdapter, ValidationError

from tasks.delivery.api_trouble import LOST_TOUCH, refused, status_code
from tasks.errors import GridbenchError
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat

REPEATS = TypeAdapter(list[Repeat])
KEY = "repeats"
WAIT_S = 300.0  # an order comes a moment after its flow run is created
LOOK_S = 1.0
NOT_THERE, THERE_ALREADY = 404, 409  # HTTP statuses
Identity = tuple[str, str, Case, int]


def identity(item: Record | Repeat) -> Identity:
    """Return the identity that a repeat and its record share."""
    return item.run, item.hardware, item.case, item.repeat


async def send_order(client: PrefectClient, flow_run_id: UUID, repeats: Sequence[Repeat]) -> list[Repeat]:
    """Give a lane job its order; return it, or that of an earlier try."""
    try:
        await client.create_flow_run_input(flow_run_id, KEY, REPEATS.dump_json(list(repeats)).decode())
    except httpx.HTTPStatusError as error:
        if status_code(error) != THERE_ALREADY:
            raise
        return await read_order(client, flow_run_id)
    return list(repeats)


async def read_order(client: PrefectClient, flow_run_id: UUID) -> list[Repeat]:
    """Return none without an order."""
    try:
        return REPEATS.validate_json(await client.read_flow_run_input(flow_run_id, KEY))
    except ValidationError:
        return []
    except httpx.HTTPStatusError as error:
        if status_code(error) == NOT_THERE:
            return []
        raise


async def delete_orders(client: PrefectClient, flow_run_ids: Iterable[UUID]) -> None:
    """Remove the orders of completed jobs."""
    for flow_run_id in flow_run_ids:
        with suppress(*LOST_TOUCH):
            await client.delete_flow_run_input(flow_run_id, KEY)


def wait_for_order(flow_run_id: UUID, wait_s: float = WAIT_S) -> list[Repeat]:
    """Return the calling job's order.

    Raises:
        GridbenchError: none within `wait_s`, or refused.
    """
    deadline = time.monotonic() + wait_s
    with get_client(sync_client=True) as client:
        while True:
            try:
                return REPEATS.validate_json(client.read_flow_run_input(flow_run_id, KEY))
            except LOST_TOUCH as error:
                final = refused(error) and status_code(error) != NOT_THERE
                if final or time.monotonic() > deadline:
                    raise GridbenchError(f"this lane job has no order of repeats: {error}") from None
            time.sleep(LOOK_S)
