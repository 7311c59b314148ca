"""The lines of a container's log for the flow run's log."""

import datetime as dt
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import httpx
from prefect.client.schemas.actions import LogCreate

from .job_configuration import SENT_BY_ENGINE
from .printable import printable
from .retry import call_until_answered

LONGEST_BYTES = 16 * 1024  # of a line; longer ones are cut into pieces
LINES_A_CALL = 500
CALL_BYTES = 500_000  # below the default limit of proxies
NOTE = "ssh.note"  # the logger of sentences about the lines

Send = Callable[[list[LogCreate]], Awaitable[None]]


class Lines:
    """Cuts bytes into lines and sends them to Prefect; `seen` bytes of the log arrived there."""

    def __init__(self, run_id: UUID, send: Send, seen: int, logger: str) -> None:
        self.seen = seen
        self._run_id, self._send, self._logger = run_id, send, logger
        self._waiting: list[LogCreate] = []
        self._rest = b""
        self._read = seen

    def take(self, chunk: bytes) -> None:
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        for line in complete:
            self._add(line)
            self._read += len(line) + 1
        while len(self._rest) > LONGEST_BYTES:
            self._add(self._rest[:LONGEST_BYTES])
            self._read += LONGEST_BYTES
            self._rest = self._rest[LONGEST_BYTES:]

    @property
    def begun(self) -> bool:
        return bool(self._read or self._rest)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= LINES_A_CALL

    def rewind(self) -> None:
        """Drop the bytes that Prefect lacks: after a lost connection they come again."""
        self._rest, self._read = b"", self.seen
        self._waiting.clear()

    async def flush(self, last: bool = False) -> bool:
        """Send the waiting lines, with `last` an unfinished one too; return True if there were any."""
        if last and self._rest:
            self._add(self._rest)
            self._read += len(self._rest)
            self._rest = b""
        moved = self._read > self.seen
        while self._waiting:
            part = _fitting(self._waiting)
            try:
                await call_until_answered(self._send, part)
            except httpx.HTTPStatusError as error:  # refused for good: continue with the others
                if part[0].name == self._logger:
                    code = error.response.status_code
                    lost = f"{len(part)} log lines were refused by the Prefect API ({code})."
                    self._waiting.insert(len(part), self._line(lost))
            del self._waiting[: len(part)]
        self.seen = self._read
        return moved

    def _add(self, line: bytes) -> None:
        text = printable(line.decode(errors="replace").rstrip("\r"))
        for piece in (text[at : at + LONGEST_BYTES] for at in range(0, len(text), LONGEST_BYTES)):
            if not SENT_BY_ENGINE.match(piece):
                self._waiting.append(self._line(piece, self._logger))

    def _line(self, message: str, name: str = NOTE) -> LogCreate:
        return log_line(self._run_id, name, message, dt.datetime.now(dt.UTC))


def log_line(run_id: UUID, name: str, message: str, at: dt.datetime) -> LogCreate:
    line = {"name": name, "message": message, "timestamp": at, "flow_run_id": run_id, "level": logging.INFO}
    return LogCreate.model_validate(line)


def _fitting(lines: list[LogCreate]) -> list[LogCreate]:
    size_bytes = 0
    for count, line in enumerate(lines[:LINES_A_CALL]):
        size_bytes += len(line.message.encode()) + 200
        if size_bytes > CALL_BYTES and count:
            return lines[:count]
    return lines[:LINES_A_CALL]
