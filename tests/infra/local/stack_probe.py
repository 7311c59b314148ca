"""Looks of the tests at a local stack."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from infra.local.access import api_client
from infra.local.supervisor import marked
from infra.local.warm_worker import FLOW_RUN, NURSERY

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WARM_WORKER = ["-m", "infra.local.warm_worker"]


def until(condition: Callable[[], object], seconds: float) -> bool:
    deadline = time.monotonic() + 6 * seconds  # of a machine that others use too
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


class Runs:
    def __init__(self, state: Path, api_url: str) -> None:
        self.http = api_client(state, api_url)
        flow = self.http.post("/flows/", json={"name": "waiting"}).json()
        pull = [{"prefect.deployments.steps.set_working_directory": {"directory": str(HERE)}}]
        deployment = {"name": "test", "flow_id": flow["id"], "entrypoint": "slow_flow.py:waiting"}
        answer = self.http.post(
            "/deployments/", json=deployment | {"work_pool_name": "local", "pull_steps": pull}
        )
        self.deployment = answer.json()["id"]

    def start(self, seconds: float = 600) -> str:
        body = {"parameters": {"seconds": seconds}}
        return str(self.http.post(f"/deployments/{self.deployment}/create_flow_run", json=body).json()["id"])

    def state(self, run: str) -> str:
        return str(self.http.get(f"/flow_runs/{run}").json()["state"]["type"])

    def wait(self, run: str, *states: str, seconds: float = 40) -> None:
        assert until(lambda: self.state(run) in states, seconds), self.state(run)


def stored_states(state: Path) -> list[str]:
    with sqlite3.connect(state / "prefect.db") as database:
        return [row[0] for row in database.execute("select state_type from flow_run")]


def everything_of(state: Path) -> list[psutil.Process]:
    return marked(str(state), servers=True)


def is_worker(process: psutil.Process) -> bool:
    """Return whether it is a pool's worker; its forks have its command line."""
    return process.cmdline()[1:3] == WARM_WORKER and process.name() not in (NURSERY, FLOW_RUN)


class Holder:
    def __init__(self, state: Path) -> None:
        program = [sys.executable, str(HERE / "hold_stack.py"), str(state)]
        self.process = subprocess.Popen(
            program, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}
        )
        self.api_url = self.next_line()

    def next_line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()
