"""Send code to a lane job as inputs, or as an expiring link."""

import asyncio
import base64
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from pydantic import TypeAdapter

from tasks.delivery.api_trouble import LOST_TOUCH, status_code, words_of
from tasks.delivery.job_orders import NOT_THERE, THERE_ALREADY
from tasks.errors import GridbenchError
from tasks.store.store import Store
from tasks.travel.run_code import FOLDER, MOST_API_BYTES, key_of, packed
from tasks.travel.tree import hex_of

PIECE_BYTES = 720 * 1024  # of the archive: below 1 MB in base64, and a request has at most 5 MiB
LINK_S = 6 * 3600  # a job fetches it soon after its start
KEY = "code-"
DIGITS = 16  # of an id, in the name of an input


class CodeTransfer(NamedTuple):
    """How a tree is sent.

    Attributes:
        bytes: of the packed tree.
        pieces: inputs; 0 for a link.
        link: presigned; empty for pieces.
    """

    id: str
    bytes: int
    pieces: int
    link: str = ""


CODE_TRANSFER = TypeAdapter(CodeTransfer)


def name_of(tree_id: str) -> str:
    """Return the key of the input with the transfer."""
    return f"{KEY}{hex_of(tree_id)[:DIGITS]}"


def piece_name(tree_id: str, place: int) -> str:
    """Return the key of the input with a piece."""
    return f"{name_of(tree_id)}-{place}"


async def give_code(client: PrefectClient, flow_run_id: UUID, store: Store, ids: Iterable[str]) -> None:
    """Send trees before the order.

    Raises:
        GridbenchError: the run's folder lacks one, or its bucket gives no link.
    """
    for tree_id in ids:
        content = await asyncio.to_thread(_read, store, tree_id)
        count = _pieces(len(content))
        link = "" if count else await asyncio.to_thread(_link, store, tree_id)
        for place in range(count):
            piece = content[place * PIECE_BYTES : (place + 1) * PIECE_BYTES]
            await _give(client, flow_run_id, piece_name(tree_id, place), base64.b64encode(piece).decode())
        transfer = CodeTransfer(tree_id, len(content), count, link)
        await _give(client, flow_run_id, name_of(tree_id), CODE_TRANSFER.dump_json(transfer).decode())


async def forget_code(
    client: PrefectClient, store: Store, flow_run_ids: Iterable[UUID], say: Callable[[str], None]
) -> None:
    """Remove code sent to a run's jobs; log a possible rest."""
    sizes = {f"sha256:{path.stem}": path.stat().st_size for path in (store.folder / FOLDER).glob("*.pack")}
    for flow_run_id in flow_run_ids if sizes else ():
        names = [name for tree_id, size in sizes.items() for name in _input_names(tree_id, size)]
        if why := await _delete(client, flow_run_id, names):
            say(f"code can remain in the inputs of flow run {flow_run_id}: {why}")


async def _delete(client: PrefectClient, flow_run_id: UUID, names: Iterable[str]) -> str:
    why = ""
    for name in names:
        try:
            await client.delete_flow_run_input(flow_run_id, name)
        except LOST_TOUCH as error:
            if status_code(error) != NOT_THERE:  # of a tree that this job was not sent
                why = why or words_of(error) or type(error).__name__
            if not status_code(error):  # no answer: the next request would wait as long
                break
    return why


def _input_names(tree_id: str, packed_bytes: int) -> list[str]:
    return [name_of(tree_id), *(piece_name(tree_id, place) for place in range(_pieces(packed_bytes)))]


def _pieces(packed_bytes: int) -> int:
    return 0 if packed_bytes > MOST_API_BYTES else -(-packed_bytes // PIECE_BYTES)


def _read(store: Store, tree_id: str) -> bytes:
    try:
        return packed(store, tree_id).read_bytes()
    except OSError as error:
        raise GridbenchError(
            f"the run's code {packed(store, tree_id)} can't be read ({error.strerror}); start a new run"
        ) from None


def _link(store: Store, tree_id: str) -> str:
    link = store.bucket.signed(key_of(store, tree_id), LINK_S) if store.bucket else None
    if not link:
        raise GridbenchError("the run's code is too large for the Prefect API, and its results no S3 bucket")
    return link


async def _give(client: PrefectClient, flow_run_id: UUID, key: str, value: str) -> None:
    try:
        await client.create_flow_run_input(flow_run_id, key, value)
    except httpx.HTTPStatusError as error:
        if status_code(error) != THERE_ALREADY:  # from an earlier try
            raise
