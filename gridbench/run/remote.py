"""A session on a remote Prefect API, with workers here."""

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
    """Return the machines that must reach the API themselves, so that a local server cannot serve them."""
    return [machine for machine in hardware if machine.pool not in POOLS]


def api_for(hardware: Sequence[Hardware]) -> PrefectApi | None:
    """Return the API of a run on this hardware; None for a local server.

    PREFECT_API_URL applies to every run. A login in Prefect's profile applies to cloud machines only, so that
    this machine can be measured without it.
    """
    named = os.environ.get("PREFECT_API_URL") or elsewhere(hardware)
    return settings_api() if named else None


def ready_clouds(hardware: Sequence[Hardware], api: PrefectApi) -> list[CloudNote]:
    pools = {machine.pool for machine in hardware}
    return [note for note in read_notes() if note.pool in pools and note.api_url == api.url]


@contextmanager
def remote_session(api: PrefectApi, hardware: Sequence[Hardware], say: Say) -> Iterator[Session]:
    keep_folders()
    clouds = ready_clouds(hardware, api)
    if not clouds:
        yield Session(api.url, api.ui_url, lambda: None)
        return
    with workers_of(clouds, api, say) as check:
        yield Session(api.url, api.ui_url, check)


@contextmanager
def open_session(hardware: Sequence[Hardware], results: Path, say: Say) -> Iterator[Session]:
    api = api_for(hardware)
    session = (
        remote_session(api, hardware, say)
        if api
        else sessions.session(say, results, pools=sessions.pools_of(hardware))
    )
    with session as opened:
        yield opened
