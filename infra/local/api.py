"""The few requests that the stack itself makes: is it up, is there a pool, what still runs in it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from infra.local.errors import LocalStackError

PAGE = 200  # the most that the API returns at once
UNFINISHED = ["PENDING", "RUNNING", "CANCELLING", "PAUSED"]


def healthy(api_url: str, timeout_s: float = 2.0) -> bool:
    """Whether a Prefect API answers at `api_url`."""
    try:
        return httpx.get(f"{api_url}/health", timeout=timeout_s, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def create_pool(api_url: str, pool: str) -> None:
    """Have a process pool of that name; one that exists stays as it is.

    Its flow runs write to no pipe of the worker's: a grandchild that kept one open would keep a killed run "Running",
    and a worker that died would break the first print of its runs. Their logs are in the API.
    """
    from prefect.workers.process import ProcessWorker  # 1.5 s, while the server starts

    template = ProcessWorker.get_default_base_job_template()
    template["variables"]["properties"]["stream_output"]["default"] = False
    body = {"name": pool, "type": "process", "base_job_template": template}
    answer = httpx.post(f"{api_url}/work_pools/", json=body, timeout=30, trust_env=False)
    if answer.status_code not in (201, 409):
        raise LocalStackError(f"The work pool {pool} could not be created: {answer.text[:300]}")


def unfinished_runs(api_url: str, pool: str) -> list[str]:
    """The ids of the pool's runs that are under way, and of those that should be: nobody starts them any more."""
    now = datetime.now(UTC).isoformat()
    due = {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": {"before_": now}}
    return _runs(api_url, pool, {"state": {"type": {"any_": UNFINISHED}}}) + _runs(api_url, pool, due)


def _runs(api_url: str, pool: str, which: dict[str, Any]) -> list[str]:
    found: list[str] = []
    while True:
        body = {"flow_runs": which, "work_pools": {"name": {"any_": [pool]}}, "limit": PAGE, "offset": len(found)}
        answer = httpx.post(f"{api_url}/flow_runs/filter", json=body, timeout=30, trust_env=False)
        answer.raise_for_status()
        page = [run["id"] for run in answer.json()]
        found += page
        if len(page) < PAGE:
            return found


def set_states(api_url: str, runs: list[str], kind: str, message: str) -> None:
    """Put every run in the state `kind` (`CANCELLING`, `CRASHED`…), whatever the rules of the way there."""
    state = {"type": kind, "name": kind.capitalize(), "message": message}
    with httpx.Client(timeout=30, trust_env=False) as client:
        for run in runs:
            client.post(f"{api_url}/flow_runs/{run}/set_state", json={"state": state, "force": True})


def cancel_runs(api_url: str, pool: str, grace_s: float, hurry: Callable[[], bool]) -> None:
    """Ask every run of the pool to end and wait until they have, so that their hooks and clean-ups happen."""
    deadline = time.monotonic() + grace_s
    left = unfinished_runs(api_url, pool)
    set_states(api_url, left, "CANCELLING", "The local stack is being stopped.")
    while left and time.monotonic() < deadline and not hurry():
        time.sleep(0.2)
        left = unfinished_runs(api_url, pool)


def settle_runs(api_url: str, pool: str, message: str) -> int:
    """Say of the runs that nothing executes any more that they have crashed. Returns how many there were."""
    left = unfinished_runs(api_url, pool)
    set_states(api_url, left, "CRASHED", message)
    return len(left)
