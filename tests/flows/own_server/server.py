"""A Prefect server as infra/server sets it up, on a real Postgres; its pools, deployments and workers."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml
from prefect.client.orchestration import PrefectClient

from gridbench.run.session import ROOT
from infra.local.api import healthy
from infra.local.ports import free_port

COMPOSE = yaml.safe_load((ROOT / "infra" / "server" / "compose.yaml").read_text())
SHARED = ("MESSAGING", "CAUSAL_ORDERING", "LEASE_STORAGE", "DOCKET")  # what several servers need Redis for
AUTH = "somebody:a-long-password"
START_S = 280


class OwnServer:
    """One server with an auth string and CSRF protection, and what people do with it."""

    def __init__(self, folder: Path, database: str, **ours: str) -> None:
        """Prepare it.

        Args:
            folder: for logs and Prefect's files.
            database: URL of the database.
            ours: settings of Gridbench for everything that is started.
        """
        port = free_port()
        self.folder, self.url = folder, f"http://127.0.0.1:{port}/api"
        theirs = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        home = {"PREFECT_HOME": str(folder / "prefect"), "PREFECT_CLI_PROMPT": "false", "DO_NOT_TRACK": "1"}
        own = {"PREFECT_API_URL": self.url, "PREFECT_API_AUTH_STRING": AUTH}
        self.environment = theirs | ours | home | own
        settings = {
            name: value
            for name, value in COMPOSE["x-settings"].items()
            if not any(word in name for word in SHARED)
        }
        settings |= {
            "PREFECT_SERVER_API_AUTH_STRING": AUTH,
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        }
        settings |= {"PREFECT_UI_API_URL": self.url, "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": self.url}
        self._of_server = self.environment | settings
        self._start = ["server", "start", "--host", "127.0.0.1", "--port", str(port)]
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Make the tables as `migrate` does, then serve."""
        self.prefect("server", "database", "upgrade", "--yes", environment=self._of_server)
        server = self._begin("server", self._start, self._of_server)
        deadline = time.monotonic() + START_S
        while not healthy(self.url):
            assert server.poll() is None and time.monotonic() < deadline, self.log("server")
            time.sleep(0.2)

    def prefect(self, *words: str, environment: dict[str, str] | None = None) -> str:
        """A command of Prefect's, as a person types it; returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *words],
            env=environment or self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def worker(self, pool: str, kind: str, name: str) -> subprocess.Popen[bytes]:
        """A worker as a person starts it, which is missed soon after it is gone."""
        words = ["worker", "start", "--pool", pool, "--type", kind, "--name", name]
        soon = {"PREFECT_WORKER_HEARTBEAT_SECONDS": "3", "SSH_WORKER_POLL_S": "1"}
        return self._begin(name, words, self.environment | soon)

    def client(self) -> PrefectClient:
        """A client with the auth string."""
        return PrefectClient(self.url, auth_string=AUTH)

    def log(self, name: str) -> str:
        """What a process has printed."""
        return (self.folder / f"{name}.log").read_text()

    def stop(self) -> None:
        """End everything that was started, the last first."""
        for process in reversed(self.processes):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            process.wait()

    def _begin(self, name: str, words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "prefect", *words]
            self.processes.append(
                subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
            )
        return self.processes[-1]
