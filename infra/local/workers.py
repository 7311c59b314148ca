"""The worker of one of a stack's pools."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import httpx

from infra.local.access import api_client
from infra.local.api import abandon_runs, cancel_runs, create_pool, pool_exists, settle_runs
from infra.local.errors import LocalStackError, stop_reason
from infra.local.processes import Service
from infra.local.settings import service_environment
from infra.local.supervisor import sweep

NOTHING: Mapping[str, str] = MappingProxyType({})
PROCESS = "process"  # in such pools runs are children of the worker, and end with it
COLD, WARM = ("prefect", "worker"), ("infra.local.warm_worker",)
CAN_FORK = sys.platform == "linux"  # a forked process ends there with the one that forked it
AWAY_STOP_S = 60.0  # for runs of the other types: their worker ends the jobs on other machines


class PoolWorker:
    """A worker of type `kind` for `pool`, without variables that are `private` to another one.

    Runs of type `process` end with their worker; others continue elsewhere, for the next worker of the same
    name.
    """

    def __init__(
        self, pool: str, kind: str, state: Path, api_url: str, private: Mapping[str, str] = NOTHING
    ) -> None:
        self.pool = pool
        self.kind = kind
        self._state = str(state)
        self._api = api_client(state, api_url)
        self._role = f"worker-{pool}"
        words = ["start", "--type", kind, "--pool", pool, "--name", pool, "--install-policy", "never"]
        command = [sys.executable, "-m", *(WARM if self.runs_here and CAN_FORK else COLD), *words]
        withheld = [name for name, owner in private.items() if owner != pool]
        environment = service_environment(state, api_url, self._role, withheld)
        self.service = Service(self._role, command, environment, state / "logs" / f"{self._role}.log", state)

    @property
    def runs_here(self) -> bool:
        return self.kind == PROCESS

    def create_pool(self) -> None:
        """Create the pool first: a worker that creates its own can lock SQLite for a minute."""
        if self.runs_here:
            create_pool(self._api, self.pool)
        elif not pool_exists(self._api, self.pool):
            command = [sys.executable, "-m", "prefect", "--no-prompt", "work-pool", "create", self.pool]
            made = subprocess.run(
                [*command, "--type", self.kind],
                env=self.service.environment,
                cwd=self.service.cwd,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if made.returncode:
                words = " ".join((made.stderr or made.stdout).split())[:300]
                raise LocalStackError(f"The work pool {self.pool} could not be created: {words}")

    def settle(self, message: str) -> int:
        with suppress(httpx.HTTPError):
            if self.runs_here:
                return settle_runs(self._api, self.pool, message)
            abandon_runs(self._api, self.pool, message)
        return 0

    def start(self, hold: Sequence[int]) -> None:
        self.service.start(hold)

    def mend(self, hold: Sequence[int]) -> str | None:
        if self.service.alive():
            return None
        ending = self.service.ending()
        if self.service.died_again():
            raise stop_reason(self.service, f"worker of pool {self.pool}")
        sweep(self._state, role=self._role)
        lost = self.settle("The worker that had this run died.") if self.runs_here else 0
        self.start(hold)
        runs = "with its runs" if self.runs_here else "while its runs go on"
        also = f"; {lost} of its runs did not report their end and were marked as crashed" if lost else ""
        return f"The worker of pool {self.pool} had stopped ({ending}) {runs}, and was started again{also}."

    def end_runs(self, grace_s: float, hurry: Callable[[], bool]) -> None:
        """Wait at most `grace_s` or `AWAY_STOP_S`."""
        limit_s = grace_s if self.runs_here else max(grace_s, AWAY_STOP_S)
        with suppress(httpx.HTTPError):
            cancel_runs(self._api, self.pool, limit_s, lambda: hurry() or not self.service.alive())

    def stop(self) -> None:
        self.service.stop()
        if self.runs_here:  # remote runs stay Cancelling: the pool's next worker ends them
            self.settle("The local stack was stopped while this run was under way.")
