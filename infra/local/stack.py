"""A Prefect server with SQLite, and workers."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType, MappingProxyType, TracebackType
from typing import Any, Self

import httpx

from infra.local.access import api_client
from infra.local.api import healthy
from infra.local.database import DatabaseWatch, database_file, fault_of
from infra.local.errors import LocalStackError, stop_reason
from infra.local.lock_file import StackLock
from infra.local.ports import free_port, port_taken
from infra.local.processes import Service
from infra.local.proxies import missing_certificates, unusable_proxy
from infra.local.settings import certificate_file, client_environment, service_environment
from infra.local.supervisor import SERVER, sweep
from infra.local.workers import NOTHING, PROCESS, PoolWorker

ENDING = (signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """This process's signal handlers while it has a stack; no effect outside of the main thread."""

    def __init__(self) -> None:
        self.hurry = False
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                self._before[number] = signal.signal(number, self._exit)

    def closing(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (*ENDING, signal.SIGINT):
                before = signal.signal(number, self._note)
                self._before.setdefault(number, before)

    def give_back(self) -> None:
        for number, before in self._before.items():
            with suppress(ValueError, TypeError):  # another thread; a handler that Python did not set
                signal.signal(number, before)
        self._before = {}
        self.hurry = False

    def _exit(self, number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.hurry = True


__all__ = ["LocalStack", "LocalStackError", "running_api"]

HOST = "127.0.0.1"
NEEDED_BYTES = 100_000_000
LOCKED_S = 20.0  # for another server to end
ANSWER_S = 15.0  # a running server answers, but slowly on a busy machine
LOCAL = MappingProxyType({"local": PROCESS})


def running_api(state: Path) -> str | None:
    api_url = StackLock(state.absolute()).read()
    return api_url if api_url and healthy(api_url, ANSWER_S) else None


class LocalStack:
    """The server and workers of `state`, or those of the process that runs them (`joined`)."""

    def __init__(
        self,
        state: Path,
        port: int | None = None,
        pools: Mapping[str, str] = LOCAL,
        *,
        private: Mapping[str, str] = NOTHING,
        start_s: float = 120,
        stop_s: float = 10,
    ) -> None:
        """Prepare a stack; entering it starts it.

        Args:
            port: of the server; None for a free one.
            pools: types of the work pools that get a worker. Runs of type `process` are cancelled first.
            private: variables for one pool's worker only, such as a provider's key.
            start_s: longest wait for the server.
            stop_s: time for cancelled runs to end.
        """
        self.state = state.absolute()
        self.port = port
        self.pools = pools
        self.private = private
        self.start_s = start_s
        self.stop_s = stop_s
        self.api_url = ""
        self.joined = False
        self._stack_lock = StackLock(self.state)
        self._server: Service | None = None
        self._workers: list[PoolWorker] = []
        self._database: DatabaseWatch | None = None
        self._signals = StopSignals()

    @property
    def ui_url(self) -> str:
        return self.api_url.removesuffix("/api")

    @property
    def api(self) -> httpx.Client:
        return api_client(self.state, self.api_url)

    @property
    def environment(self) -> dict[str, str]:
        return client_environment(self.state, self.api_url)

    def __enter__(self) -> Self:
        self._signals.take()
        try:
            self._start()
            self._database = DatabaseWatch(self.state, self.state / "logs" / "server.log")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> str | None:
        """Check the stack, every few seconds; return a sentence about a repair."""
        if self._database and (fault := self._database.fault()):
            raise LocalStackError(fault)
        if self.joined:
            if self._stack_lock.read() is None:  # not by its answer: it can be busy, or in repair
                raise LocalStackError(f"The stack in {self.state} that was joined has stopped. Start again.")
            return None
        if self._server is None:
            raise LocalStackError("The stack has not been started.")
        if not self._server.alive():
            ending = self._server.ending()
            self._serve()
            return f"The Prefect server had stopped ({ending}) and was started again."
        mended = [worker.mend(self._parent_pipes()) for worker in self._workers]
        return " ".join(filter(None, mended)) or None

    def stop(self) -> None:
        """End runs, workers and server, and release the state folder. Safe to repeat."""
        self._signals.closing()
        self._stack_lock.retract()
        try:
            for worker in self._workers:
                worker.end_runs(self.stop_s, lambda: self._signals.hurry)
            for worker in self._workers:
                worker.stop()
            if self._server is not None:
                self._server.stop()
        finally:
            self._server, self._workers = None, []
            self._stack_lock.release()
            self._signals.give_back()

    def _start(self) -> None:
        if fault := unusable_proxy(os.environ) or missing_certificates(os.environ):
            raise LocalStackError(fault)
        self._prepare_folder()
        if not self._stack_lock.take():
            self._join()
            return
        sweep(str(self.state))
        sweep(str(self.state), servers=True)
        port = self.port or free_port(HOST)
        if trouble := port_taken(HOST, port):
            raise LocalStackError(trouble)
        self.api_url = f"http://{HOST}:{port}/api"
        serve = [sys.executable, "-m", "infra.local.server", "--host", HOST, "--port", str(port)]
        wait_until_free(database_file(self.state))
        environment = service_environment(self.state, self.api_url, SERVER, self.private)
        log = self.state / "logs" / "server.log"
        self._server = Service(SERVER, serve, environment, log, self.state)
        self._serve()
        self._start_workers()
        self._stack_lock.write(self.api_url, self.pools)

    def _start_workers(self) -> None:
        workers = [
            PoolWorker(pool, kind, self.state, self.api_url, self.private)
            for pool, kind in self.pools.items()
        ]
        # stopped in this order: hooks of local runs end remote runs, whose workers must still be up
        workers.sort(key=lambda worker: not worker.runs_here)
        for worker in workers:
            worker.create_pool()
            worker.settle("The local stack stopped before this run ended.")
        for worker in workers:
            worker.start(self._parent_pipes())
            self._workers.append(worker)

    def _prepare_folder(self) -> None:
        try:
            for folder in (self.state, self.state / "logs", self.state / "prefect"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                (folder / ".writable").touch()
                (folder / ".writable").unlink()
            self.state.chmod(0o700)  # the database has Secret blocks, and the key to them
            ensure_certificate(certificate_file(self.state))
        except OSError as error:
            reason = (
                f"The state folder {self.state} can't be written ({error.strerror}); name another by --state."
            )
            raise LocalStackError(reason) from error
        if (free := shutil.disk_usage(self.state).free) < NEEDED_BYTES:
            raise LocalStackError(
                f"The disk of {self.state} is full: {free / 1e6:.0f} MB left, 100 MB are needed."
            )

    def _serve(self) -> None:
        assert self._server is not None
        self._server.start()
        deadline = time.monotonic() + self.start_s
        while not healthy(self.api_url):
            if not self._server.alive():
                raise stop_reason(self._server, SERVER)
            if time.monotonic() > deadline:
                what = f"The Prefect server does not answer after {self.start_s:.0f} s."
                raise LocalStackError(f"{what} The end of {self._server.log}:\n{self._server.last_words()}")
            time.sleep(0.1)

    def _parent_pipes(self) -> list[int]:
        """Return the server's pipe for the workers' supervisors: if we are killed, the server ends last."""
        return [self._server.parent_pipe] if self._server and self._server.parent_pipe is not None else []

    def _join(self) -> None:
        deadline = time.monotonic() + self.start_s
        while (up := self._up()) is None:
            if self._stack_lock.take():  # its owner has just released it
                self._stack_lock.release()
                return self._start()
            if time.monotonic() > deadline:
                raise LocalStackError(
                    f"The state folder {self.state} is held by {self._stack_lock.holder()}, whose server "
                    "does not answer. Stop that process, or choose another folder."
                )
            time.sleep(0.2)
        api_url, pools = up
        if missing := sorted(set(self.pools) - pools):
            raise LocalStackError(
                f"The stack that is up in {self.state} has no worker for pool {', '.join(missing)}: stop "
                f"{self._stack_lock.holder()} or wait for its end, then start again."
            )
        self.api_url, self.joined = api_url, True

    def _up(self) -> tuple[str, frozenset[str]] | None:
        """Return the running stack's API and pools, unless its owner is stopping it."""
        api_url, pools = running_api(self.state), self._stack_lock.pools()
        return (api_url, pools) if api_url and self._stack_lock.read() == api_url else None


def wait_until_free(database: Path) -> None:
    """Wait for another process that writes to the database; a server would wait silently."""
    until = time.monotonic() + LOCKED_S
    while database.exists() and "locked" in (fault := fault_of(database)):
        if time.monotonic() > until:
            raise LocalStackError(f"The Prefect database {database} {fault} (seen for {LOCKED_S:.0f} s).")
        time.sleep(0.2)


NOTE = """\
The local server speaks http only. Prefect's clients read this file in place of all the world's certificates,
which take 60 ms of CPU each time. The key of this authority was never stored.
"""


def ensure_certificate(path: Path) -> None:
    """Write a self-signed authority unless it exists; its key is not stored."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(NOTE.encode() + _self_signed())
    draft.replace(path)


def _self_signed() -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks can be set back
        .not_valid_after(now + timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
