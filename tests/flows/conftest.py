"""A real Prefect server and worker, for the whole session, with deployments, results and box of their own."""

import asyncio
import os
import shutil
import time
from pathlib import Path

import psutil
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.states import Cancelling

from gridbench.session import deploy
from infra.local.stack import LocalStack
from tasks.store import Store

HERE = Path(__file__).parent
DEPLOYMENTS = HERE.parents[1] / "deployments"
NAPS = """
title = "Naps"
repeats = 1
quick = true
timeout_s = 60
estimate_s = 3
[[cases]]
workload = "nap"
size = { ms = [2, 3, 4, 5] }
"""
LONG = """
title = "Many naps"
repeats = 2
quick = true
timeout_s = 60
estimate_s = 3
[[cases]]
workload = "nap"
size = { ms = [2, 3, 4, 5] }
"""


class Bench:
    """A stack that is up, and what tests do with it."""

    def __init__(self, stack: LocalStack, results: Path) -> None:
        self.stack, self.results = stack, results

    def client(self) -> PrefectClient:
        return PrefectClient(self.stack.api_url)

    async def start(self, **parameters):
        """Start a run of naps on one piece of hardware; returns the flow run's id."""
        asked = {"suite": "naps", "hardware": ["local-cpu"], "results": str(self.results)} | parameters
        async with self.client() as client:
            found = await client.read_deployment_by_name("bench/quick")
            return (await client.create_flow_run_from_deployment(found.id, parameters=asked)).id

    async def state(self, run_id):
        async with self.client() as client:
            return (await client.read_flow_run(run_id)).state

    async def end(self, run_id, within_s=150):
        """Wait for a run's end; returns its state."""
        deadline = time.monotonic() + within_s
        while not (state := await self.state(run_id)).is_final():
            assert time.monotonic() < deadline, f"still {state.name} after {within_s} s"
            await asyncio.sleep(0.3)
        return state

    async def cancel(self, run_id):
        async with self.client() as client:  # what the button in the UI does
            await client.set_flow_run_state(run_id, Cancelling(), force=True)

    async def store(self, run_id):
        async with self.client() as client:
            name = (await client.read_flow_run(run_id)).name
        return Store.open(self.results, name)

    async def tasks(self, run_id):
        """The run's task runs, by name; they reach the database a moment after they happen."""
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=[run_id]))
        async with self.client() as client:
            return {task.name: task for task in await client.read_task_runs(flow_run_filter=wanted)}

    async def records(self, run_id, at_least, within_s=60):
        """Wait until the store has so many records; returns the store."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            folder = self.results / await self._name(run_id) / "records"
            if len(list(folder.rglob("*.json"))) >= at_least:
                return await self.store(run_id)
            await asyncio.sleep(0.2)
        raise AssertionError(f"fewer than {at_least} records within {within_s} s")

    async def _name(self, run_id):
        async with self.client() as client:
            return (await client.read_flow_run(run_id)).name

    async def lane_pid(self):
        """The process of the running lane: the parent of the measuring process."""
        return (await self.measuring()).ppid()

    async def bench_pid(self, run_id):
        return next(p.pid for p in self._marked() if p.environ().get("PREFECT__FLOW_RUN_ID") == str(run_id))

    def worker(self):
        """The worker's process."""
        return next(p for p in self._marked() if "worker" in p.cmdline() and "prefect" in p.cmdline()[:4])

    async def measuring(self, within_s=30):
        """The process that measures, once there is one."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if found := measuring():
                return found[0]
            await asyncio.sleep(0.05)
        raise AssertionError(f"nothing measures within {within_s} s")

    def _marked(self):
        for process in psutil.process_iter():
            try:
                if process.environ().get("GRIDBENCH_RESULTS") == str(self.results):
                    yield process
            except psutil.Error:
                continue


def measuring():
    """Every process on this machine that measures naps."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "workloads" in words and "run" in words and "nap" in words:
            found.append(process)
    return found


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flows")
    shutil.copytree(DEPLOYMENTS, folder / "deployments")
    (folder / "deployments" / "suites" / "naps.toml").write_text(NAPS)
    (folder / "deployments" / "suites" / "long.toml").write_text(LONG)
    ours = {
        "GRIDBENCH_DEPLOYMENTS": str(folder / "deployments"),
        "GRIDBENCH_WORKLOADS": str(HERE / "workloads"),
        "GRIDBENCH_RESULTS": str(folder / "results"),
        "GRIDBENCH_BOX_LOCK": str(folder / "box.lock"),
    }
    os.environ.update(ours)
    try:
        with LocalStack(folder / "state") as stack:
            os.environ.update(stack.environment)
            deploy(schedules=False, settings=stack.environment)
            yield Bench(stack, folder / "results")
    finally:
        for name in [*ours, *stack.environment]:
            os.environ.pop(name, None)
