"""A Prefect server with a pool for one of our workers."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import prefect.settings as of
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.sorting import LogSort
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.states import Cancelling

from infra.local.api import healthy
from infra.local.ports import free_port
from infra.local.settings import certificate_file, client_environment, server_environment
from infra.local.stack import ensure_certificate
from infra.workers.base.retry import call_until_answered
from infra.workers.batch.worker import AwsBatchWorker
from tests.emulators.prefect_api import client_of, with_tables

POLL_S = "0.5"
PR_SET_PDEATHSIG = 1  # linux/prctl.h
KINDS = "infra.workers.batch.worker, infra.workers.ssh.worker, infra.workers.kubernetes.worker"
WORKER = f"import {KINDS}; from prefect.cli import app; app()"
LOGGERS = {
    "aws-batch": "aws_batch.",
    "ssh": "ssh.job",
    "kubernetes-jobs": "kubernetes.container",
}  # of a container's output
WITHIN_S = 400  # of a machine that others use too


class Prefect:
    """A server that can be killed and restarted on the same port and database.

    `locked`: it requires its auth string, like a local stack's server.
    """

    def __init__(self, folder: Path, locked: bool = False) -> None:
        port = free_port()
        self.folder, self.url = folder, f"http://127.0.0.1:{port}/api"
        ensure_certificate(certificate_file(with_tables(folder)))
        theirs = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
        self.environment = theirs | client_environment(folder, self.url)
        ours = server_environment(folder, self.url)
        self.auth = self.environment["PREFECT_API_AUTH_STRING"] if locked else None
        if not locked:
            del self.environment["PREFECT_API_AUTH_STRING"], ours["PREFECT_SERVER_API_AUTH_STRING"]
        self._of_server = self.environment | ours
        self._command = ["-m", "infra.local.server", "--host", "127.0.0.1", "--port", str(port)]

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the server from the main thread: the kernel ends it with the thread that started it."""
        with (self.folder / "server.log").open("ab") as log:
            command = [sys.executable, *self._command]
            self._server = subprocess.Popen(
                command,
                env=self._of_server,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=end_with_parent,
            )

    def wait(self, within_s: float = 240) -> None:
        deadline = time.monotonic() + within_s
        while not healthy(self.url):
            assert self._server.poll() is None and time.monotonic() < deadline, "no server"
            time.sleep(0.1)

    def kill(self) -> None:
        self._server.kill()
        self._server.wait()

    def stop(self) -> None:
        """End the server once it has this process's logs: else threads complain in a later test's output."""
        APILogWorker.drain_all(timeout=5)
        EventsWorker.drain_all(timeout=5)
        self.kill()

    def client(self) -> PrefectClient:
        return client_of(self.url, self.folder if self.auth else None)

    def settings(self):
        return of.temporary_settings(
            {
                of.PREFECT_API_URL: self.url,
                of.PREFECT_API_AUTH_STRING: self.auth,
                of.PREFECT_HOME: str(self.folder / "prefect"),
                of.PREFECT_WORKER_QUERY_SECONDS: 0.4,
                of.PREFECT_CLIENT_MAX_RETRIES: 1,
                of.PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW: "ignore",
            }
        )

    def worker_process(
        self, pool: str, name: str, kind: str = "aws-batch", **environment
    ) -> subprocess.Popen:
        options = ["worker", "start", "--type", kind, "--pool", pool, "--name", name]
        root = Path(__file__).parents[3]
        ours = {"AWS_BATCH_WORKER_POLL_S": POLL_S, "PREFECT_WORKER_QUERY_SECONDS": "1", **environment}
        ours |= {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("AWS_", "KUBE", "GRIDBENCH_"))
        }
        ours |= {"PYTHONPATH": str(root), "PREFECT_LOGGING_COLORS": "false"}
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-c", WORKER, *options]
            return subprocess.Popen(
                command, env=self.environment | ours, stdout=log, stderr=log, cwd=self.folder
            )


def end_with_parent() -> None:
    """Have the kernel end this process with the thread that made it: an interrupted test run leaves no server."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Pool:
    def __init__(self, prefect: Prefect, name: str, deployment_id, kind) -> None:
        self.prefect, self.name, self._deployment_id, self.kind = prefect, name, deployment_id, kind

    @classmethod
    async def make(cls, prefect: Prefect, kind=AwsBatchWorker, flow="job", **variables):
        """Make a pool of a worker's type, with a deployment of a flow with these job variables."""
        template = kind.get_default_base_job_template()
        name = f"pool-{uuid.uuid4().hex[:6]}"
        async with prefect.client() as client:
            made = WorkPoolCreate(name=name, type=kind.type, base_job_template=template)
            await call_until_answered(client.create_work_pool, made)
            flow_id = await call_until_answered(client.create_flow_from_name, flow)
            deployment_id = await call_until_answered(
                client.create_deployment,
                flow_id=flow_id,
                name=name,
                work_pool_name=name,
                job_variables=variables,
                entrypoint="none.py:none",
            )
        return cls(prefect, name, deployment_id, kind)

    async def start(self, name=None, script=None, **variables):
        if script is not None:
            variables["command"] = f"sh -c {_quoted(script)}"
        async with self.prefect.client() as client:
            asked = {"name": name, "job_variables": variables}
            run = await call_until_answered(
                client.create_flow_run_from_deployment, self._deployment_id, **asked
            )
        return run.id

    async def run(self, run_id):
        async with self.prefect.client() as client:
            return await call_until_answered(client.read_flow_run, run_id)

    async def cancel(self, run_id):
        async with self.prefect.client() as client:  # as the UI's button does
            await call_until_answered(client.set_flow_run_state, run_id, Cancelling(), force=True)

    async def until(self, run_id, when, within_s=WITHIN_S):
        deadline = time.monotonic() + within_s
        while not when(run := await self.run(run_id)):
            assert time.monotonic() < deadline, f"{run.name}: {run.state.name} {run.state.message}"
            await asyncio.sleep(0.5)
        return run

    async def end(self, run_id, within_s=WITHIN_S):
        return (await self.until(run_id, lambda run: run.state.is_final(), within_s)).state

    async def logs(self, run_id):
        wanted, found = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id])), []
        async with self.prefect.client() as client:
            while True:
                page = await client.read_logs(
                    wanted, limit=200, offset=len(found), sort=LogSort.TIMESTAMP_ASC
                )
                found += page
                if len(page) < 200:
                    return found

    async def lines(self, run_id):
        return [
            line.message for line in await self.logs(run_id) if line.name.startswith(LOGGERS[self.kind.type])
        ]

    async def lines_when(self, run_id, enough, within_s=240):
        """Return the container's lines once they suffice: the last can come after the state."""
        deadline = time.monotonic() + within_s
        while not enough(lines := await self.lines(run_id)) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return lines

    @contextlib.asynccontextmanager
    async def worker(self, name="w1"):
        """Yield a worker with its loops in this process; leaving stops it like SIGINT."""
        worker = self.kind(work_pool_name=self.name, name=name, heartbeat_interval_seconds=3)
        running = asyncio.create_task(worker.start(printer=lambda *words: None))
        try:
            yield worker
            assert not running.done(), running
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


def _quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"
