"""A Prefect server with SQLite and a process worker, for as long as a `with` block lasts and no longer."""

import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from infra.local.api import cancel_runs, create_pool, healthy, settle_runs
from infra.local.errors import LocalStackError
from infra.local.guard import sweep
from infra.local.ledger import Ledger
from infra.local.ports import free_port, port_taken
from infra.local.processes import Service
from infra.local.settings import client_environment, service_environment
from infra.local.signals import StopSignals

__all__ = ["LocalStack", "LocalStackError", "running_api"]

HOST = "127.0.0.1"
NEEDED_BYTES = 100_000_000
WORKER_DEATHS = 3  # so many at once mean that starting it again is no use
REASONS = {
    "already in use": "its port was taken by another program",
    "disk is full": "the disk is full",
    "Can't locate revision": "the database was written by a newer Prefect",
    "readonly database": "the database can't be written",
    "file is not a database": "the database file is damaged",
    "malformed": "the database file is damaged",
    "No module named": "its installation is incomplete",
}


def running_api(state: Path) -> str | None:
    """The API of the stack that is up in `state`, where there is one and it answers."""
    api_url = Ledger(state.absolute()).read()
    return api_url if api_url and healthy(api_url) else None


class LocalStack:
    """The server and the worker of `state`, or those of the process that has them running already.

    Attributes:
        api_url: for PREFECT_API_URL.
        ui_url: for people.
        joined: the stack is somebody else's, and goes on after us.
    """

    def __init__(
        self,
        state: Path,
        port: int | None = None,
        pool: str = "local",
        *,
        start_s: float = 120,
        stop_s: float = 10,
    ) -> None:
        """`start_s` bounds the wait for the server, `stop_s` the time that cancelled runs get to end."""
        self.state = state.absolute()
        self.port = port
        self.pool = pool
        self.start_s = start_s
        self.stop_s = stop_s
        self.api_url = ""
        self.joined = False
        self._ledger = Ledger(self.state)
        self._server: Service | None = None
        self._worker: Service | None = None
        self._deaths: list[float] = []
        self._signals = StopSignals()

    @property
    def ui_url(self) -> str:
        """Where the UI is."""
        return self.api_url.removesuffix("/api")

    @property
    def environment(self) -> dict[str, str]:
        """The settings that a process needs to use this stack."""
        return client_environment(self.state, self.api_url)

    def __enter__(self) -> Self:
        self._signals.take()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> str | None:
        """Look after the stack, every few seconds. Returns a sentence when something had to be mended.

        Raises:
            LocalStackError: it can't be mended.
        """
        if self.joined:
            if self._ledger.read() is None:  # not whether it answers: it may be busy, or being mended
                raise LocalStackError(f"The stack in {self.state} that was joined has stopped. Start again.")
            return None
        if self._server is None or self._worker is None:
            raise LocalStackError("The stack has not been started.")
        if not self._server.alive():
            ending = self._server.ending()
            self._serve()
            return f"The Prefect server had stopped ({ending}) and was started again."
        return None if self._worker.alive() else self._mend_worker(self._worker)

    def stop(self) -> None:
        """End the runs, the worker and the server, and let go of the state folder. Harmless when repeated."""
        self._signals.closing()
        self._ledger.retract()
        try:
            if self._worker is not None:
                with suppress(httpx.HTTPError):
                    cancel_runs(self.api_url, self.pool, self.stop_s, lambda: self._signals.hurry)
                self._worker.stop()
                self._settle("The local stack was stopped while this run was under way.")
            if self._server is not None:
                self._server.stop()
        finally:
            self._server = self._worker = None
            self._ledger.release()
            self._signals.give_back()

    def _start(self) -> None:
        self._prepare_folder()
        if not self._ledger.take():
            self._join()
            return
        sweep(str(self.state))
        sweep(str(self.state), servers=True)
        port = self.port or free_port(HOST)
        if trouble := port_taken(HOST, port):
            raise LocalStackError(trouble)
        self.api_url = f"http://{HOST}:{port}/api"
        python = [sys.executable, "-m", "prefect"]
        serve = [*python, "server", "start", "--host", HOST, "--port", str(port)]
        work = [*python, "worker", "start", "--type", "process", "--pool", self.pool, "--name", self.pool]
        self._server = self._service("server", serve)
        self._serve()
        self._settle("The local stack that had this run ended without it.")
        self._worker = self._service("worker", [*work, "--install-policy", "never"])
        self._worker.start(hold=self._lifelines())
        self._ledger.write(self.api_url)

    def _prepare_folder(self) -> None:
        try:
            for folder in (self.state, self.state / "logs", self.state / "prefect"):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / ".writable").touch()
                (folder / ".writable").unlink()
        except OSError as error:
            raise LocalStackError(
                f"The state folder {self.state} can't be written ({error.strerror})."
            ) from error
        if (free := shutil.disk_usage(self.state).free) < NEEDED_BYTES:
            raise LocalStackError(
                f"The disk of {self.state} is full: {free / 1e6:.0f} MB left, 100 MB are needed."
            )

    def _service(self, name: str, command: list[str]) -> Service:
        environment = service_environment(self.state, self.api_url, name)
        return Service(name, command, environment, self.state / "logs" / f"{name}.log", self.state)

    def _serve(self) -> None:
        """Start the server and wait until it answers."""
        assert self._server is not None
        self._server.start()
        deadline = time.monotonic() + self.start_s
        while not healthy(self.api_url):
            if not self._server.alive():
                raise LocalStackError(self._obituary(self._server))
            if time.monotonic() > deadline:
                what = f"The Prefect server does not answer after {self.start_s:.0f} s."
                raise LocalStackError(f"{what} The end of {self._server.log}:\n{self._server.last_words()}")
            time.sleep(0.1)
        create_pool(self.api_url, self.pool)

    def _obituary(self, service: Service) -> str:
        words = service.last_words()
        reason = next((why for sign, why in REASONS.items() if sign in words), service.ending())
        return f"The Prefect {service.name} stopped: {reason}. The end of {service.log}:\n{words}"

    def _mend_worker(self, worker: Service) -> str:
        ending = worker.ending()
        self._deaths = [at for at in self._deaths if time.monotonic() - at < 60] + [time.monotonic()]
        if len(self._deaths) >= WORKER_DEATHS:
            raise LocalStackError(self._obituary(worker))
        sweep(str(self.state))
        lost = self._settle("The worker that had this run died.")
        worker.start(hold=self._lifelines())
        also = f"; {lost} of its runs could not say how they ended and were marked as crashed" if lost else ""
        return f"The worker had stopped ({ending}) with the runs it had, and was started again{also}."

    def _settle(self, message: str) -> int:
        with suppress(httpx.HTTPError):
            return settle_runs(self.api_url, self.pool, message)
        return 0

    def _lifelines(self) -> list[int]:
        """The server's, for the worker's guard: when we are killed, the server goes after the worker has."""
        return [self._server.lifeline] if self._server and self._server.lifeline is not None else []

    def _join(self) -> None:
        deadline = time.monotonic() + self.start_s
        while (api_url := running_api(self.state)) is None:
            if self._ledger.take():  # its owner has just let go
                self._ledger.release()
                return self._start()
            if time.monotonic() > deadline:
                raise LocalStackError(
                    f"The state folder {self.state} is held by {self._ledger.holder()}, whose server does not"
                    " answer. Stop that process, or choose another folder."
                )
            time.sleep(0.2)
        self.api_url, self.joined = api_url, True
