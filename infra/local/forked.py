"""The worker's side of its nursery."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio
from prefect.runner import _starter_engine as starter
from prefect.utilities.processutils import run_process as cold_start
from prefect.workers.base import BaseWorker
from prefect.workers.process import ProcessWorker

SUPERVISOR = ["-m", "prefect.runner._workspace_supervisor"]
LOOK_S, SOON_S = 0.5, 3.0  # after a flow run has begun or ended: a lane follows its bench, or another lane
look = ProcessWorker.get_and_submit_flow_runs


class Forked:
    """A flow run's process; `returncode` is negative for a signal, None while it runs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ended = asyncio.Event()

    def end(self, status: int) -> None:
        self.returncode = status
        self.ended.set()


class Forks:
    """Requests processes from the nursery, one at a time, and receives their ends."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._lock = pipe, asyncio.Lock()
        self._running: dict[int, Forked] = {}
        self._news: asyncio.Future[Forked | None] | None = None
        self._is_listening, self._is_gone = False, False
        self._last_event = float("-inf")

    async def run_process(self, command: list[str], **options: Any) -> Any:
        """Replace Prefect's function of that name: fork if it starts a flow run."""
        forked = await self._fork(command, options) if command[1:3] == SUPERVISOR else None
        if forked is None:
            return await cold_start(command=command, **options)
        options["task_status"].started(options["task_status_handler"](forked))
        try:
            await forked.ended.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(forked.pid, signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await forked.ended.wait()
            raise
        return forked

    async def _fork(self, command: list[str], options: dict[str, Any]) -> Forked | None:
        """Return None if the nursery is gone."""
        flow_start = command[3:], Path(options["cwd"]), options["env"], not options["stream_output"]
        async with self._lock:
            if not self._is_listening:
                asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._hear)
                self._is_listening = True
            if self._is_gone:
                return None
            self._news = asyncio.get_running_loop().create_future()
            try:
                self._pipe.send(flow_start)
            except OSError:
                return None
            # a cancelled start must still read its answer, or the next start would get it
            with anyio.CancelScope(shield=True):
                forked = await self._news
        return forked

    async def look_again(self, worker: BaseWorker[Any, Any, Any]) -> Any:
        while True:
            if taken := await look(worker):
                self._last_event = time.monotonic()
            if time.monotonic() - self._last_event > SOON_S:
                return taken
            await asyncio.sleep(LOOK_S)

    def _hear(self) -> None:
        try:
            pid, status = self._pipe.recv()
        except (EOFError, OSError):
            return self._lose()
        self._last_event = time.monotonic()
        if status is not None:
            return self._running.pop(pid).end(status)
        forked = self._running[pid] = Forked(pid)
        if self._news and not self._news.done():
            self._news.set_result(forked)

    def _lose(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        self._is_gone = True
        for forked in self._running.values():
            forked.end(-signal.SIGKILL)
        self._running.clear()
        if self._news and not self._news.done():
            self._news.set_result(None)


def install(pipe: Connection) -> None:
    forks = Forks(pipe)
    starter.run_process = forks.run_process  # type: ignore[attr-defined]
    ProcessWorker.get_and_submit_flow_runs = lambda worker: forks.look_again(worker)  # type: ignore
