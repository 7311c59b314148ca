"""A service of the stack."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from infra.local.supervisor import GRACE_S, MARK

SUPERVISOR = Path(__file__).with_name("supervisor.py")
LOG_BYTES = 10_000_000
DEATHS = 3  # within a minute: another start is then useless
STOP_S = 3 * GRACE_S  # the supervisor's worst case: its child, then the remaining processes, twice


class Service:
    """A program that runs as long as we do, restarted on demand, with its output in `log`."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path
    ) -> None:
        self.name = name
        self.command = list(command)
        self.environment = dict(environment)
        self.log = log
        self.cwd = cwd
        self.started_at = 0.0
        self._deaths: list[float] = []
        self.parent_pipe: int | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None

    def start(self, hold: Sequence[int] = ()) -> None:
        """Start the program; its supervisor keeps the files in `hold` open."""
        self._close_parent_pipe()
        state = self.environment[MARK]
        theirs, self.parent_pipe = os.pipe()
        try:
            if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))
            with self.log.open("ab") as log:
                self._supervisor = subprocess.Popen(
                    [sys.executable, "-P", str(SUPERVISOR), state, str(theirs), *self.command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self.environment,
                    cwd=self.cwd,  # the user's one could have a prefect.toml or .env, which would be read
                    pass_fds=(theirs, *hold),
                    start_new_session=True,  # only this process gets Ctrl-C; it stops its services in order
                )
        finally:
            os.close(theirs)
        self.started_at = time.monotonic()

    def alive(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None

    def died_again(self) -> bool:
        """Count a death; return True after `DEATHS` within a minute."""
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < 60] + [now]
        return len(self._deaths) >= DEATHS

    def ending(self) -> str:
        status = self._supervisor.returncode if self._supervisor else None
        if status is None:
            return "it did not run"
        number = -status if status < 0 else status - 128
        if number > 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(number).name}"
        return f"exit status {status}"

    def stop(self) -> None:
        if self._supervisor is None:
            return
        self._supervisor.terminate()
        try:
            self._supervisor.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # its child dies of the parent-death signal
            self._supervisor.wait()
        self._close_parent_pipe()
        self._supervisor = None

    def last_words(self, lines: int = 8) -> str:
        with suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 20_000))
            words = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
            return "\n".join(words[-lines:])
        return ""

    def _close_parent_pipe(self) -> None:
        if self.parent_pipe is not None:
            os.close(self.parent_pipe)
            self.parent_pipe = None
