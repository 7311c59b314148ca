"""A real Prefect server and worker for the whole session, with private deployments, results and box lock."""

import asyncio
import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.states import Cancelling

from gridbench.run.session import ROOT, deploy
from infra.local.stack import LocalStack
from tasks.store.store import Store
from tests.emulators.fixtures import environment
from tests.emulators.prefect_api import account_of_runs, client_of, with_tables
from tests.infra.local.stack_probe import is_worker

FORKS = "fork-server"  # of the command line of a server that forks repeats, and of those
HERE = Path(__file__).parent
DEPLOYMENTS = HERE.parents[1] / "deployments"


class Bench:
    def __init__(self, stack: LocalStack, results: Path, environment: dict[str, str]) -> None:
        self.stack, self.results, self.environment = stack, results, environment

    def client(self) -> PrefectClient:
        return client_of(self.stack.api_url, self.stack.state)

    async def start(self, **parameters):
        """Start a run of naps on one machine; return the flow run's id."""
        asked = {"suite": "naps", "hardware": ["local-cpu"], "results": str(self.results)} | parameters
        async with self.client() as client:
            found = await client.read_deployment_by_name("bench/quick")
            return (await client.create_flow_run_from_deployment(found.id, parameters=asked)).id

    async def nightly(self):
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--name", "nightly"]
        options = {"cwd": ROOT, "check": True, "capture_output": True, "timeout": 240}
        await asyncio.to_thread(subprocess.run, command, **options)
        async with self.client() as client:
            deployment = await client.read_deployment_by_name("nightly/nightly")
            await client.pause_deployment(deployment.id)
        return deployment

    async def state(self, run_id):
        async with self.client() as client:
            return (await client.read_flow_run(run_id)).state

    async def end(self, run_id, within_s=600):
        deadline = time.monotonic() + within_s
        async with self.client() as client:
            while not (state := (await client.read_flow_run(run_id)).state).is_final():
                if time.monotonic() > deadline:
                    told = await account_of_runs(client)
                    raise AssertionError(f"still {state.name} after {within_s} s:\n{told}")
                await asyncio.sleep(0.5)
        return state

    async def cancel(self, run_id):
        async with self.client() as client:  # as the UI's button does
            await client.set_flow_run_state(run_id, Cancelling(), force=True)

    async def store(self, run_id):
        async with self.client() as client:
            name = (await client.read_flow_run(run_id)).name
        return Store.open(self.results, name)

    async def tasks(self, run_id):
        """Return the run's task runs by name; they reach the database a moment late."""
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=[run_id]))
        async with self.client() as client:
            return {task.name: task for task in await client.read_task_runs(flow_run_filter=wanted)}

    async def records(self, run_id, at_least, within_s=150):
        deadline = time.monotonic() + within_s
        async with self.client() as client:
            while time.monotonic() < deadline:
                name = (await client.read_flow_run(run_id)).name  # the flow gives it one
                if len(list((self.results / name / "records").rglob("*.json"))) >= at_least:
                    return Store.open(self.results, name)
                await asyncio.sleep(0.3)
        raise AssertionError(f"fewer than {at_least} records within {within_s} s")

    async def lane_pid(self):
        """Return the running lane's process: the parent of the measuring process or of its fork server."""
        process = await self.measuring()
        while FORKS in (parent := process.parent()).cmdline():
            process = parent
        return parent.pid

    async def bench_pid(self, run_id):
        async with self.client() as client:
            return int((await client.read_flow_run(run_id)).infrastructure_pid)

    def worker(self):
        return next(p for p in self._marked() if is_worker(p))

    async def measuring(self, within_s=150):
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if found := self.naps():
                return found[0]
            await asyncio.sleep(0.2)
        raise AssertionError(f"nothing measures within {within_s} s")

    def naps(self):
        found = []
        for process in self._marked():
            with contextlib.suppress(psutil.Error):
                line, parent = process.cmdline(), process.parent()
                is_fresh = "workloads" in line and '"workload": "nap"' in line[-1]
                if is_fresh or (FORKS in line and parent is not None and FORKS in parent.cmdline()):
                    found.append(process)
        return found

    def _marked(self):
        for process in psutil.process_iter():
            try:
                if process.environ().get("GRIDBENCH_RESULTS") == str(self.results):
                    yield process
            except psutil.Error:
                continue


@pytest.fixture(scope="session")
def session_bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flows")
    shutil.copytree(DEPLOYMENTS, folder / "deployments")
    shutil.copytree(HERE / "deployments", folder / "deployments", dirs_exist_ok=True)
    racer = (HERE / "racer.yaml").read_text().format(python=sys.executable, racer=HERE / "racer.py")
    for name in ("sloping", "flat"):
        (folder / "deployments" / "hardware" / f"{name}.yaml").write_text(racer)
    ours = {
        "GRIDBENCH_DEPLOYMENTS": str(folder / "deployments"),
        "GRIDBENCH_WORKLOADS": str(HERE / "workloads"),
        "GRIDBENCH_RESULTS": str(folder / "results"),
        "GRIDBENCH_BOX_LOCK": str(folder / "box.lock"),
    }
    with contextlib.ExitStack() as held:
        with environment(**ours):
            stack = held.enter_context(LocalStack(with_tables(folder / "state"), start_s=280))
            ours |= stack.environment
            with environment(**ours):
                deploy(schedules=False, settings=stack.environment)
        yield Bench(stack, folder / "results", ours)


@pytest.fixture
def bench(session_bench):
    """The stack, for which this process is set up during a test."""
    with environment(**session_bench.environment):
        yield session_bench
