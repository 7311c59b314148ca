"""The stack's own requests to Prefect."""

import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx

from infra.local.errors import LocalStackError

PAGE = 200  # the most that the API returns at once
# Prefect answers 503 while its database is locked: during the migration, or by other writers
BUSY_S, AGAIN_S = 60.0, 0.5
UNDER_WAY = ("PENDING", "RUNNING", "CANCELLING")
NOT_FROM_OUTSIDE = ("command", "env", "working_dir")  # a flow run can't change its worker's command
WORKER_TYPES = "server/api/collections_data/views/aggregate-worker-metadata.json"


@cache
def _http() -> httpx.Client:
    return httpx.Client(trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


def healthy(api_url: str, timeout_s: float = 2.0) -> bool:
    try:
        return _http().get(f"{api_url}/health", timeout=timeout_s).status_code == 200
    except httpx.HTTPError:
        return False


def create_pool(api: httpx.Client, pool: str) -> None:
    template = process_template()
    whole = {"name": pool, "type": "process", "base_job_template": template}
    try:
        answer = _when_unlocked(lambda: api.post("/work_pools/", json=whole))
        if answer.status_code == httpx.codes.CONFLICT:
            form = {"base_job_template": template}
            answer = _when_unlocked(lambda: api.patch(f"/work_pools/{quote(pool)}", json=form))
    except httpx.HTTPError as error:
        raise LocalStackError(f"The work pool {pool} could not be created: {error!r}") from error
    if not answer.is_success:
        raise LocalStackError(f"The work pool {pool} could not be created: {answer.text[:300]}")


def _when_unlocked(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Retry for a minute while the server's database is locked."""
    until = time.monotonic() + BUSY_S
    while (answer := ask()).status_code == httpx.codes.SERVICE_UNAVAILABLE and time.monotonic() < until:
        time.sleep(AGAIN_S)
    return answer


def pool_exists(api: httpx.Client, pool: str) -> bool:
    try:
        answer = api.get(f"/work_pools/{quote(pool)}")
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


def process_template() -> dict[str, Any]:
    """Return Prefect's template of process pools, without the fields for another command.

    Output of the flow runs is not piped to the worker: a grandchild with an open pipe would keep a killed run
    "Running", and after a worker's death the first print of its runs would fail. It is read without importing
    Prefect, which would fix its settings before the API's address is known.
    """
    spec = importlib.util.find_spec("prefect")
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        types = json.loads((Path(folder) / WORKER_TYPES).read_text())
        template = cast(dict[str, Any], types["prefect"]["process"]["default_base_job_configuration"])
        for name in NOT_FROM_OUTSIDE:
            del template["job_configuration"][name], template["variables"]["properties"][name]
        template["variables"]["properties"]["stream_output"]["default"] = False
        return template
    raise LocalStackError("Prefect is not installed.")


def runs_under_way(api: httpx.Client, pool: str, kinds: Sequence[str] = UNDER_WAY) -> list[str]:
    return _runs(api, pool, {"state": {"type": {"any_": [*kinds]}}})


def runs_due(api: httpx.Client, pool: str) -> list[str]:
    now = datetime.now(UTC).isoformat()
    return _runs(
        api, pool, {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": {"before_": now}}
    )


def _runs(api: httpx.Client, pool: str, which: dict[str, Any]) -> list[str]:
    ids: list[str] = []
    while True:
        body = {
            "flow_runs": which,
            "work_pools": {"name": {"any_": [pool]}},
            "limit": PAGE,
            "offset": len(ids),
        }
        answer = api.post("/flow_runs/filter", json=body)
        answer.raise_for_status()
        page = [run["id"] for run in answer.json()]
        ids += page
        if len(page) < PAGE:
            return ids


def set_states(api: httpx.Client, runs: list[str], kind: str, message: str) -> None:
    state = {"type": kind, "name": kind.capitalize(), "message": message}
    for run in runs:
        api.post(f"/flow_runs/{run}/set_state", json={"state": state, "force": True})


def cancel_runs(api: httpx.Client, pool: str, grace_s: float, hurry: Callable[[], bool]) -> None:
    """Cancel the pool's runs and wait for their ends, hooks and clean-ups included."""
    deadline = time.monotonic() + grace_s
    while True:
        abandon_runs(api, pool, "The local stack is stopped.")
        if not runs_under_way(api, pool) or time.monotonic() > deadline or hurry():
            return
        time.sleep(0.2)


def abandon_runs(api: httpx.Client, pool: str, message: str) -> None:
    set_states(api, runs_due(api, pool), "CANCELLED", message)
    set_states(api, runs_under_way(api, pool, ("PENDING", "RUNNING")), "CANCELLING", message)


def settle_runs(api: httpx.Client, pool: str, message: str) -> int:
    """Mark runs without a process as crashed and return their number; cancel those that still wait."""
    lost = runs_under_way(api, pool)
    set_states(api, lost, "CRASHED", message)
    set_states(api, runs_due(api, pool), "CANCELLED", message)
    return len(lost)
