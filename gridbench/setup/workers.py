"""Workers on this machine for a cloud's pools, which simultaneous runs share."""

import fcntl
import hashlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from gridbench.run.session import PRIVATE
from gridbench.setup.lanes import cancel, unended
from gridbench.setup.note import CloudNote, folder_of
from gridbench.setup.prefect_api import PrefectApi
from infra.local.processes import Service
from infra.local.supervisor import MARK, ROLE
from tasks.errors import GridbenchError
from tasks.planning.limits import LOCAL_POOL

Say = Callable[[str], None]
SETTLE_S = 120.0  # for the worker to end cancelled lanes in the cloud
FINISH_S = 30.0  # for the last lane of a completed run
LOOK_S = 2.0
QUIET = {"PREFECT_LOGGING_COLORS": "false", "PYTHONUNBUFFERED": "1", "PREFECT_CLI_PROMPT": "false"}


class CloudWorker:
    """A worker for one pool: this run's, or that of another run on this machine.

    Of two runs the first owns the worker and ends last; if it dies, the other one starts a worker.
    """

    def __init__(
        self, pool: str, kind: str, folder: Path, api: PrefectApi, more: Mapping[str, str], say: Say
    ) -> None:
        self.pool, self._api, self._say = pool, api, say
        command = [sys.executable, "-m", "prefect", "worker", "start", "--type", kind, "--pool", pool]
        command += ["--name", f"gridbench-{socket.gethostname()}", "--install-policy", "never"]
        marks = {MARK: str(folder), ROLE: f"worker-{pool}"}
        theirs = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        environment = theirs | api.environment | dict(more) | marks | QUIET
        self.log, self._folder = folder / "worker.log", folder
        self._service = Service(f"worker-{pool}", command, environment, self.log, folder)
        self._locks = ExitStack()
        self._ours = False

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._owner = self._locks.enter_context((self._folder / "owner.lock").open("a"))
        self._users = self._locks.enter_context((self._folder / "users.lock").open("a"))
        while not self._take():
            if _locked(self._users, fcntl.LOCK_SH):
                self._say(f"the worker for pool {self.pool} of another run from here serves this one, too")
                break
            time.sleep(LOOK_S)  # its owner is about to leave
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._ours:
                with suppress(KeyboardInterrupt):
                    fcntl.flock(self._users, fcntl.LOCK_UN)
                    if not _locked(self._users, fcntl.LOCK_EX):
                        used = f"another run from here uses the worker of pool {self.pool}"
                        self._say(f"{used}; Ctrl-C does not wait for it")
                        fcntl.flock(self._users, fcntl.LOCK_EX)
                    self._wait_for_lanes()
                self._service.stop()
        finally:
            self._locks.close()

    def check(self) -> str | None:
        """Restart the worker if it has stopped; return a sentence if it had."""
        if not self._ours:
            mended = f"The run that had the worker of pool {self.pool} is gone: it was started here."
            return mended if self._take() else None
        if self._service.alive():
            return None
        ending = self._service.ending()
        if self._service.died_again():
            words = self._service.last_words()
            raise GridbenchError(
                f"the worker of pool {self.pool} stops again and again ({ending}). "
                f"The end of {self.log}:\n{words}"
            )
        self._service.start()
        return f"The worker of pool {self.pool} had stopped ({ending}) and was started again."

    def _take(self) -> bool:
        if not _locked(self._owner, fcntl.LOCK_EX):
            return False
        self._ours = True
        self._service.start()
        self._say(f"a worker for pool {self.pool} runs here until this run ends; its log is {self.log}")
        return True

    def _wait_for_lanes(self) -> None:
        """Wait for the jobs that only this worker ends: they cost until then."""
        begun, silent = time.monotonic(), True
        with suppress(GridbenchError):
            while any(left := unended(self._api, self.pool)):
                waited_s = time.monotonic() - begun
                if waited_s > SETTLE_S:
                    return
                cancel(self._api, left.orphans + (left.finishing if waited_s > FINISH_S else []))
                if silent and (left.orphans or left.cancelling):
                    count = len(left.orphans + left.cancelling)
                    self._say(f"ending {count} runs of pool {self.pool}; Ctrl-C does not wait for it")
                    silent = False
                time.sleep(LOOK_S)


def _locked(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def workers_of(notes: Sequence[CloudNote], api: PrefectApi, say: Say) -> Iterator[Callable[[], str | None]]:
    """Run a worker for each cloud's pool and for `bench`; yield the function that checks them."""
    name = f"bench-{hashlib.sha256(api.url.encode()).hexdigest()[:8]}"  # another API has another one
    wanted = [(note.pool, note.kind, note.folder, note.environment) for note in notes]
    wanted.append((LOCAL_POOL, "process", folder_of(name), {}))  # the last one started is ended first
    with ExitStack() as stack:
        workers = [
            stack.enter_context(CloudWorker(pool, kind, folder, api, more, say))
            for pool, kind, folder, more in wanted
        ]
        yield lambda: " ".join(filter(None, (worker.check() for worker in workers))) or None
