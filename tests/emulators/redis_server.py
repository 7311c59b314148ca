"""A real Redis of Debian's package, with a password."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.local.ports import free_port

MISSING = "there is no Redis here; install it: apt-get install redis-server"
START_S = 60


def program() -> str | None:
    return shutil.which("redis-server")


@dataclass(frozen=True)
class Redis:
    port: int
    password: str = "a-long-password"

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/1"


@contextlib.contextmanager
def redis_server(path: str) -> Iterator[Redis]:
    """Run a Redis without persistence."""
    with tempfile.TemporaryDirectory(prefix="gridbench-redis-") as folder:
        made = Redis(free_port())
        options = ["--port", str(made.port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        log = Path(folder) / "log"
        command = [path, *options, "--requirepass", made.password, "--logfile", str(log)]
        process = subprocess.Popen(command)
        try:
            deadline = time.monotonic() + START_S
            while not log.exists() or "Ready to accept connections" not in log.read_text():
                assert process.poll() is None and time.monotonic() < deadline, "no Redis"
                time.sleep(0.05)
            yield made
        finally:
            process.kill()
            process.wait()
