"""A real Postgres of Debian's package with a private database."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.local.ports import free_port

MISSING = "there is no Postgres here; install it: apt-get install postgresql"
START_S = 120


def programs() -> Path | None:
    """Return the folder of initdb, pg_ctl and psql: Debian's newest, or that of the PATH."""
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(versions, key=lambda path: int(path.parts[-3]))
    found = newest[-1] if newest else shutil.which("initdb")
    return Path(found).parent if found else None


@dataclass(frozen=True)
class Postgres:
    """A running server.

    Attributes:
        url: for Prefect's server.
    """

    url: str
    bin: Path
    folder: Path
    port: int

    def ask(self, query: str) -> str:
        words = [self.bin / "psql", "--host", self.folder, "--port", str(self.port), "--username", "prefect"]
        words += ["--dbname", "postgres", "--tuples-only", "--no-align", "--command", query]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def postgres(bin_: Path) -> Iterator[Postgres]:
    """Run a Postgres; delete it and its files at the end."""
    folder = Path(tempfile.mkdtemp(prefix="gridbench-postgres-", dir="/var/tmp"))
    port, data = free_port(), folder / "data"
    as_owner = _as_owner(folder)

    def run(program: str, *words: str | Path) -> None:
        command = [*as_owner, bin_ / program, *words]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=START_S * 2)

    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    try:
        run("initdb", "--pgdata", data, "--username", "prefect", "--auth", "trust", "--no-sync")
        run(
            "pg_ctl",
            "start",
            "--wait",
            f"--timeout={START_S}",
            "-D",
            data,
            "-l",
            folder / "log",
            "-o",
            options,
        )
        yield Postgres(f"postgresql+asyncpg://prefect@127.0.0.1:{port}/postgres", bin_, folder, port)
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            run("pg_ctl", "stop", "--wait", "--mode=immediate", "-D", data)
        shutil.rmtree(folder, ignore_errors=True)


def _as_owner(folder: Path) -> list[str]:
    """Return a command prefix: Postgres refuses to run as root."""
    if os.geteuid():
        return []
    owner = pwd.getpwnam("postgres")
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    return ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
