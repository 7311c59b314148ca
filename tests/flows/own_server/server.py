"""Prefect as infra/server sets it up, on a real Postgres and Redis."""

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
from tests.emulators.redis_server import Redis

COMPOSE = yaml.safe_load((ROOT / "infra" / "server" / "compose.yaml").read_text())
SHARED = ("MESSAGING", "CAUSAL_ORDERING", "LEASE_STORAGE", "DOCKET")  # what several servers need Redis for
AUTH = "somebody:a-long-password"
START_S = 280


class OwnServer:
    """One server or two, with an auth string.

    Attributes:
        url: API of the first server.
        last_url: API of the last one.
    """

    def __init__(self, folder: Path, database: str, redis: Redis | None, **ours: str) -> None:
        """Prepare it.

        Args:
            folder: for logs and Prefect's files.
            database: its URL.
            redis: shared by two servers and a process of services; None for one server that does everything.
            ours: settings of Gridbench for all processes.
        """
        self.ports = [free_port() for _ in range(2 if redis else 1)]
        self.folder = folder
        self.url, self.last_url = (f"http://127.0.0.1:{self.ports[end]}/api" for end in (0, -1))
        theirs = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        home = {"PREFECT_HOME": str(folder / "prefect"), "PREFECT_CLI_PROMPT": "false", "DO_NOT_TRACK": "1"}
        own = {"PREFECT_API_URL": self.url, "PREFECT_API_AUTH_STRING": AUTH}
        self.environment = theirs | ours | home | own
        settings = {
            name: value
            for name, value in COMPOSE["x-settings"].items()
            if redis or not any(word in name for word in SHARED)
        }
        settings |= {
            "PREFECT_SERVER_API_AUTH_STRING": AUTH,
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        }
        settings |= {"PREFECT_UI_API_URL": self.url, "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": self.url}
        if redis:
            settings |= {"PREFECT_REDIS_MESSAGING_HOST": "127.0.0.1", "PREFECT_SERVER_DOCKET_URL": redis.url}
            settings |= {"PREFECT_REDIS_MESSAGING_PORT": str(redis.port)}
            settings |= {"PREFECT_REDIS_MESSAGING_PASSWORD": redis.password}
        self._of_server, self._alone = self.environment | settings, redis is None
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Make the tables like `migrate`, then serve."""
        self.prefect("server", "database", "upgrade", "--yes", environment=self._of_server)
        for number, port in enumerate(self.ports):
            words = ["server", "start", "--host", "127.0.0.1", "--port", str(port)]
            words += [] if self._alone else ["--no-services"]
            self._begin(f"server-{number}", words, self._of_server)
        if not self._alone:
            self._begin("services", ["server", "services", "start"], self._of_server)
        deadline = time.monotonic() + START_S
        while not (healthy(self.url) and healthy(self.last_url)):
            alive = all(process.poll() is None for process in self.processes)
            assert alive and time.monotonic() < deadline, self.logs()
            time.sleep(0.2)

    def prefect(self, *words: str, environment: dict[str, str] | None = None) -> str:
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

    def worker(self, pool: str, kind: str, name: str, url: str | None = None) -> subprocess.Popen[bytes]:
        """Run a worker like a person, whose loss is noticed soon."""
        words = ["worker", "start", "--pool", pool, "--type", kind, "--name", name]
        soon = {"PREFECT_WORKER_HEARTBEAT_SECONDS": "3", "SSH_WORKER_POLL_S": "1"}
        soon["PREFECT_API_URL"] = url or self.url
        return self._begin(name, words, self.environment | soon)

    def client(self) -> PrefectClient:
        return PrefectClient(self.url, auth_string=AUTH)

    def logs(self) -> str:
        return "\n".join(log.read_text()[-3000:] for log in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
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
