"""A session on a Prefect API that is elsewhere, with workers here where `gridbench up` made a cloud ready."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gridbench.run import session as sessions
from gridbench.run.session import POOLS, Session, keep_folders
from gridbench.setup.note import CloudNote, read_notes
from gridbench.setup.prefect_api import PrefectApi, settings_api
from gridbench.setup.workers import workers_of
from tasks.planning.hardware import Hardware

Say = Callable[[str], None]


def elsewhere(hardware: Sequence[Hardware]) -> list[Hardware]:
    """Return the machines whose lanes no server of ours can serve: they must reach the API themselves."""
    return [machine for machine in hardware if machine.pool not in POOLS]


def api_for(hardware: Sequence[Hardware]) -> PrefectApi | None:
    """Return the API that a run on this hardware uses; None for a server of our own.

    PREFECT_API_URL counts for every run, a login in Prefect's profile for machines of a cloud alone: whoever
    has one still measures this machine without it.
    """
    named = os.environ.get("PREFECT_API_URL") or elsewhere(hardware)
    return settings_api() if named else None


def ready_clouds(hardware: Sequence[Hardware], api: PrefectApi) -> list[CloudNote]:
    """Return the notes of the clouds that this hardware is in, if they were made ready for this API."""
    pools = {machine.pool for machine in hardware}
    return [note for note in read_notes() if note.pool in pools and note.api_url == api.url]


@contextmanager
def remote_session(api: PrefectApi, hardware: Sequence[Hardware], say: Say) -> Iterator[Session]:
    """Yield an API that is elsewhere; workers that were started for it end with the block."""
    keep_folders()
    clouds = ready_clouds(hardware, api)
    if not clouds:
        yield Session(api.url, api.ui_url, lambda: None)
        return
    with workers_of(clouds, api, say) as check:
        yield Session(api.url, api.ui_url, check)


@contextmanager
def open_session(hardware: Sequence[Hardware], results: Path, say: Say) -> Iterator[Session]:
    """Yield an API for a run on this hardware: one elsewhere, of a stack that is up, or of one of our own."""
    api = api_for(hardware)
    session = (
        remote_session(api, hardware, say)
        if api
        else sessions.session(say, results, pools=sessions.pools_of(hardware))
    )
    with session as opened:
        yield opened
