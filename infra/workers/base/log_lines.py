"""A container's lines, from the box's log into the flow run's, with the place that is reached."""

import datetime as dt
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import httpx
from prefect.client.schemas.actions import LogCreate

from infra.workers.base.job_configuration import SENT_BY_ENGINE
from infra.workers.base.retry import call_until_answered

LONGEST_BYTES = 16 * 1024  # of a line; what is longer comes in pieces
LINES_A_CALL = 500
CALL_BYTES = 500_000  # below what proxies take by default
LOGGER, NOTE = "ssh.container", "ssh.note"

Send = Callable[[list[LogCreate]], Awaitable[None]]


class Lines:
    """Cuts bytes into lines and sends them.

    Attributes:
        seen: how many bytes of the log Prefect has.
    """

    def __init__(self, run_id: UUID, send: Send, seen: int, logger: str = LOGGER) -> None:
        self.seen = seen
        self._run_id, self._send, self._logger = run_id, send, logger
        self._waiting: list[LogCreate] = []
        self._rest = b""
        self._read = seen

    def take(self, chunk: bytes) -> None:
        """More of the log."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._add(line)
            self._read += len(line) + 1
        while len(self._rest) > LONGEST_BYTES:
            self._add(self._rest[:LONGEST_BYTES])
            self._read += LONGEST_BYTES
            self._rest = self._rest[LONGEST_BYTES:]

    @property
    def full(self) -> bool:
        """Whether so much waits that it should go."""
        return len(self._waiting) >= LINES_A_CALL

    def again(self) -> None:
        """The connection was lost: what Prefect does not have yet comes once more."""
        self._rest, self._read = b"", self.seen
        self._waiting.clear()

    async def flush(self, last: bool = False) -> bool:
        """Send what waits; with `last` an unfinished line, too. Returns whether something was new."""
        if last and self._rest:
            self._add(self._rest)
            self._read += len(self._rest)
            self._rest = b""
        moved = self._read > self.seen
        while self._waiting:
            part = _fitting(self._waiting)
            try:
                await call_until_answered(self._send, part)
            except httpx.HTTPStatusError as error:  # refused for good: the others still go
                lost = f"{len(part)} lines were refused by the Prefect API ({error.response.status_code})."
                of_the_container = part[0].name == self._logger
                self._waiting[len(part) : len(part)] = [self._line(lost)] if of_the_container else []
            del self._waiting[: len(part)]
        self.seen = self._read
        return moved

    def _add(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r").replace("\0", "\ufffd")  # which Postgres refuses
        for piece in _pieces(text):
            if piece and not SENT_BY_ENGINE.match(piece):
                self._waiting.append(self._line(piece, self._logger))

    def _line(self, message: str, name: str = NOTE) -> LogCreate:
        now = dt.datetime.now(dt.UTC)
        return LogCreate(
            name=name, level=logging.INFO, message=message, timestamp=now, flow_run_id=self._run_id
        )


def _fitting(lines: list[LogCreate]) -> list[LogCreate]:
    """The first lines, as many as one call may carry; one at least."""
    size_bytes = 0
    for count, line in enumerate(lines[:LINES_A_CALL]):
        size_bytes += len(line.message.encode()) + 200
        if size_bytes > CALL_BYTES and count:
            return lines[:count]
    return lines[:LINES_A_CALL]


def _pieces(text: str) -> list[str]:
    return [text[start : start + LONGEST_BYTES] for start in range(0, len(text), LONGEST_BYTES)]
