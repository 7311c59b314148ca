"""Tables and clients for tests with their own Prefect server."""

import shutil
import sqlite3
import ssl
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

import prefect
from filelock import FileLock
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.sorting import FlowRunSort, LogSort

from infra.local.access import auth_string
from infra.local.settings import certificate_file, service_environment
from infra.local.stack import ensure_certificate

DATABASE = "prefect.db"  # of a state folder


def client_of(api_url: str, state: Path | None = None) -> PrefectClient:
    """Return a client, with the auth string of a state folder if given.

    All share one TLS context, which takes 60 ms of CPU to make.
    """
    auth = auth_string(state) if state else None
    return PrefectClient(api_url, auth_string=auth, httpx_settings={"verify": _certificates()})


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def with_tables(state: Path) -> Path:
    """Copy a database with Prefect's tables into a state folder: a server takes 12 s of CPU to make them."""
    state.mkdir(parents=True, exist_ok=True)
    shutil.copy(tables(), state / DATABASE)
    return state


def tables() -> Path:
    """Return the database, made once per machine and version of Prefect."""
    made = Path(tempfile.gettempdir()) / f"gridbench-prefect-{prefect.__version__}.db"
    with FileLock(f"{made}.lock"):
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=made.parent) as folder:
                database = Path(folder) / DATABASE
                ensure_certificate(certificate_file(Path(folder)))
                env = service_environment(Path(folder), "", "server")
                command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
                subprocess.run(command, env=env, check=True, capture_output=True)
                with closing(sqlite3.connect(database)) as opened:
                    opened.execute("pragma wal_checkpoint(truncate)")  # this one file is copied
                database.replace(made)
    return made


async def account_of_runs(client: PrefectClient, runs: int = 12, lines: int = 60) -> str:
    """Return the latest runs' states and last log lines, for a test that timed out."""
    latest = await client.read_flow_runs(sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=runs)
    states = [f"{run.name}: {run.state.name if run.state else None}" for run in latest]
    of_these = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id for run in latest]))
    logs = await client.read_logs(of_these, limit=lines, sort=LogSort.TIMESTAMP_DESC)
    return "\n".join([*states, *(f"{log.timestamp:%X} {log.name}: {log.message}" for log in reversed(logs))])
