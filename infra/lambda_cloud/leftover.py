"""Leftovers of a crashed holder of a box."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound

from infra.lambda_cloud.api import LambdaApi
from infra.lambda_cloud.give_back import Rented, Say, clear
from infra.lambda_cloud.janitor import KEY_GRACE
from infra.lambda_cloud.lease import Lease, deadline_of, lease_name, lease_of
from infra.workers.base.retry import call_until_answered

Names = Callable[[], Awaitable[set[str]]]
BLOCK_TYPE = "secret"
PAGE = 200  # the most that Prefect's API returns at once


async def return_earlier(
    api: LambdaApi, client: PrefectClient, run: str, hardware: str, in_use: Names, say: Say
) -> None:
    """Give back a lane's earlier rentals without a holder; `in_use` returns the leases that others hold."""
    leases = [
        lease for instance in await api.instances() if not instance.ended and (lease := lease_of(instance))
    ]
    mine = {lease_name(it.name) for it in leases if (it.run, it.hardware) == (run, hardware)}
    if not mine:
        return
    # A name is in the labels before its instance is launched: so list the instances first.
    held = await in_use()
    for name in sorted(name for name in mine if name and name not in held):
        say(f"an earlier box for {hardware} of run {run} was left behind ({name}): giving it back")
        await return_all(api, name, say)
        await call_until_answered(delete_block, client, name)


async def return_all(api: LambdaApi, name: str, say: Say) -> None:
    """Give back all launches and the SSH key; raise `NotReturned` if one might still run."""
    deadline = deadline_of(name)
    if deadline is not None:
        await clear(api, Lease("unknown", "unknown", None, deadline, 0.0, name), Rented(doubt=True), say)


async def delete_block(client: PrefectClient, name: str) -> None:
    try:
        block = await client.read_block_document_by_name(name, BLOCK_TYPE, include_secrets=False)
        await client.delete_block_document(block.id)
    except ObjectNotFound:
        return


async def sweep_blocks(client: PrefectClient, now: datetime) -> list[str]:
    names: list[str] = []
    while True:
        page = await client.read_block_documents_by_type(
            BLOCK_TYPE, offset=len(names), limit=PAGE, include_secrets=False
        )
        names += [block.name or "" for block in page]
        if len(page) < PAGE:
            break
    past = [name for name in names if (due := deadline_of(name)) and now >= due + KEY_GRACE]
    for name in past:
        await delete_block(client, name)
    return past
