"""Code from the cache or the flow run's inputs."""

import base64
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from pydantic import ValidationError

from tasks.delivery.api_trouble import LOST_TOUCH, refused
from tasks.errors import GridbenchError, one_line
from tasks.travel.cache import CODE, cache_folder, cache_folders, mark_used, prune
from tasks.travel.packing import unpack
from tasks.travel.sending import CODE_TRANSFER, LINK_S, name_of, piece_name
from tasks.travel.tree import MIB, MOST_BYTES, hex_of
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_whole

PATIENCE_S, LOOK_S = 300.0, 2.0
ANSWER_S = 60.0


def unpack_code(tree_id: str, folder: Path, fetch: Callable[[str], bytes]) -> None:
    """Unpack a tree, and cache it.

    Args:
        folder: new, for this job alone, because scripts write into it.
        fetch: returns a packed tree; called without a complete cached copy.

    Raises:
        GridbenchError: missing, or another one.
    """
    name = f"{hex_of(tree_id)}.pack"
    for cached in cache_folders(CODE):
        with suppress(OSError, GridbenchError):  # missing, or changed
            unpack((cached / name).read_bytes(), tree_id, folder)
            mark_used(cached / name)
            return
        shutil.rmtree(folder, ignore_errors=True)
    packed = fetch(tree_id)
    try:
        unpack(packed, tree_id, folder)
    except OSError as error:
        raise GridbenchError(f"the code can't be written to {folder} ({error.strerror})") from None
    with suppress(WorkloadsError):  # a full disk keeps none
        write_whole(cache_folder(CODE) / name, packed)
    prune(CODE)


def download_code(flow_run_id: UUID, tree_id: str) -> bytes:
    """Return a tree sent to the calling job.

    Raises:
        GridbenchError: there is none, or it can't be fetched.
    """
    with get_client(sync_client=True) as client:
        try:
            way = CODE_TRANSFER.validate_json(_read(client, flow_run_id, name_of(tree_id)))
        except ValidationError:
            raise GridbenchError(f"the code {tree_id} was sent in a way that is unknown here") from None
        if way.id != tree_id or not 0 < way.bytes <= MOST_BYTES:
            raise GridbenchError(f"the code {tree_id} was asked for, and {way.id[:80]} was sent")
        if way.link:
            return _download(way.link, way.bytes)
        pieces = [_read(client, flow_run_id, piece_name(tree_id, place)) for place in range(way.pieces)]
    try:
        return b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except ValueError:
        raise GridbenchError(f"the code {tree_id} came damaged; start the run again") from None


def _read(client: SyncPrefectClient, flow_run_id: UUID, key: str) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return client.read_flow_run_input(flow_run_id, key)
        except LOST_TOUCH as error:
            if refused(error) or time.monotonic() > deadline:
                raise GridbenchError(f"this lane job's code did not come: {one_line(error)}") from None
        time.sleep(LOOK_S)


def _download(link: str, most_bytes: int) -> bytes:
    """Put the link into no error, because it opens the file for anyone."""
    content = bytearray()  # bytes would be copied for each chunk
    try:
        with httpx.stream("GET", link, timeout=ANSWER_S) as answer:
            if not answer.is_success:  # a redirection leads to another bucket or to a login
                raise GridbenchError(
                    f"the results bucket does not give the run's code (status {answer.status_code}); a link "
                    f"is good for {LINK_S // 3600} h at most: start or resume the run again"
                )
            for chunk in answer.iter_bytes():
                content += chunk
                if len(content) > most_bytes:
                    raise GridbenchError(f"the results bucket gives more than {most_bytes / MIB:.1f} MiB")
    except httpx.HTTPError as error:
        kind = type(error).__name__
        raise GridbenchError(
            f"this machine does not reach the results bucket for the run's code ({kind})"
        ) from None
    return bytes(content)
