"""The container's lines from CloudWatch: each once, at AWS's rate."""

import datetime as dt
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import LogCreate
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.sorting import LogSort

from ..base.job_configuration import SENT_BY_ENGINE
from ..base.log_lines import log_line
from .errors import code_of, sentence, trouble
from .reasons import Job

BATCH_GROUP = "/aws/batch/job"  # for jobs whose definition names no group
LINES_A_CALL = 1000
PAGE, PAGES = 200, 100  # of a run's log, searched for the last line of a stream
QUIETER = 2  # the factor of the interval for each read of a stream without new lines
ORDINALS = 1000  # numbers for the lines of one millisecond: CloudWatch has milliseconds, Prefect microseconds

Call = Callable[..., Awaitable[dict[str, Any]]]
Send = Callable[[list[LogCreate]], Awaitable[None]]
# Number of the last line that Prefect has of a stream: milliseconds and a number within them.
Position = tuple[int, int]
NOTHING: Position = (0, -1)
FINAL_TRIES = 30  # reads after the job's end, while calls fail
LATE_LOOKS = 10  # reads after the job's end, while each brings lines


@dataclass(eq=False)
class Tail:
    """The progress of reading one job's lines, attempt after attempt."""

    run_id: UUID
    has: Callable[[str], Awaitable[Position | None]] | None  # finds a stream's last line in Prefect
    group: str = BATCH_GROUP
    streams: list[str] = field(default_factory=list)
    current: int = 0
    token: str | None = None
    sent_before: Position = NOTHING  # the last line of this stream from an earlier worker
    counted: Position = NOTHING  # the last line of this stream that was read
    opened: bool = False
    due: float = 0
    quiet_s: float = 0
    failing: bool = False  # the last read failed, and can succeed later
    closed: str = ""  # why no more lines can be read
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    def learn(self, job: Job) -> None:
        container = job.get("container", {})
        options = container.get("logConfiguration", {}).get("options", {})
        self.group = options.get("awslogs-group", BATCH_GROUP)
        named = [attempt.get("container", {}).get("logStreamName") for attempt in job.get("attempts") or []]
        for name in [*named, container.get("logStreamName")]:
            if name and name not in self.streams:
                self.streams.append(name)

    @property
    def stream(self) -> str | None:
        return self.streams[self.current] if self.current < len(self.streams) else None

    def turn(self) -> bool:
        if self.current + 1 >= len(self.streams):
            return False
        self.current, self.token, self.counted, self.opened = self.current + 1, None, NOTHING, False
        return True


class LogReader:
    """Reads the streams of all jobs of a region in turn, within one budget of calls."""

    def __init__(
        self,
        call: Call,
        send: Send,
        calls_per_s: float,
        soonest_s: float,
        quietest_s: float,
        warn: Callable[[str], None],
    ) -> None:
        """`send` passes lines to Prefect and raises if that failed."""
        self._call, self._send, self._warn = call, send, warn
        self._gap_s, self._soonest_s, self._quietest_s = 1 / calls_per_s, soonest_s, quietest_s
        self._tails: list[Tail] = []
        self._free_at = 0.0

    def follow(self, tail: Tail) -> None:
        if tail not in self._tails:
            self._tails.append(tail)

    async def run(self) -> None:
        while True:
            now = time.monotonic()
            ready = [tail for tail in self._tails if tail.due <= now and tail.stream]
            for tail in sorted(ready, key=lambda tail: tail.due):
                await self.step(tail)
            await anyio.sleep(self._soonest_s / 4)

    async def finish(self, tail: Tail, settle_s: float) -> None:
        self.leave(tail)
        await self._drain(tail)
        for _ in range(LATE_LOOKS):
            before = tail.current, tail.counted
            await anyio.sleep(settle_s)
            await self._drain(tail)
            if before == (tail.current, tail.counted):
                return

    async def _drain(self, tail: Tail) -> None:
        failures = 0
        while await self.step(tail) or (tail.failing and failures < FINAL_TRIES):
            if tail.failing:
                failures += 1
                await anyio.sleep(self._soonest_s)

    def leave(self, tail: Tail) -> None:
        if tail in self._tails:
            self._tails.remove(tail)

    async def step(self, tail: Tail) -> bool:
        """Make one call for a job; return True if more lines can follow at once."""
        async with tail.lock:
            if tail.stream is None or tail.closed:
                return False
            turn = max(self._free_at, time.monotonic())  # one rate for all jobs together
            self._free_at = turn + self._gap_s
            await anyio.sleep(max(turn - time.monotonic(), 0))
            tail.failing = False
            try:
                more = await self._read(tail)
            except Exception as error:
                more = self._failed(tail, error)
        quieter_s = min(max(tail.quiet_s, self._soonest_s) * QUIETER, self._quietest_s)
        tail.quiet_s = self._soonest_s if more else quieter_s
        tail.due = time.monotonic() + (0 if more else tail.quiet_s)
        return more

    async def _read(self, tail: Tail) -> bool:
        if not tail.opened:
            last = await tail.has(tail.stream or "") if tail.has else None
            tail.sent_before, tail.opened = last or NOTHING, True
        where: dict[str, Any] = {"logGroupName": tail.group, "logStreamName": tail.stream}
        if tail.sent_before != NOTHING:
            where["startTime"] = tail.sent_before[0]
        if tail.token:
            where["nextToken"] = tail.token
        answer = await self._call("logs", "get_log_events", limit=LINES_A_CALL, startFromHead=True, **where)
        lines, counted = new_lines(answer["events"], tail)
        if lines:
            with anyio.CancelScope(shield=True):  # a stopping worker leaves no request half done
                await self._send(lines)
        # Only now, so that lines that Prefect did not accept are read again.
        ended = answer["nextForwardToken"] == tail.token  # AWS: the same token again is the end of the stream
        tail.token, tail.counted = answer["nextForwardToken"], counted
        return tail.turn() if ended else True

    def _failed(self, tail: Tail, error: Exception) -> bool:
        """Handle a failed read: lines are late, never lost, unless AWS refuses access."""
        answer = getattr(error, "response", None)
        if not isinstance(answer, dict) and not type(error).__module__.startswith("botocore"):
            self._warn(
                f"Prefect did not accept log lines ({type(error).__name__}: {error}); they will be sent again."
            )
            tail.failing = True
            return False
        kind = trouble(error)
        if code_of(error) == "ResourceNotFoundException":  # AWS names a stream before its first line
            return tail.turn()
        if kind in ("denied", "refused"):
            tail.closed = sentence(error, "logs:GetLogEvents")
            return False
        if kind == "throttled":
            self._free_at = time.monotonic() + 10 * self._gap_s
        tail.failing = True
        return False


def new_lines(events: list[dict[str, Any]], tail: Tail) -> tuple[list[LogCreate], Position]:
    """Return the lines that Prefect lacks, and the position of the last one.

    A position is the millisecond and the number within it; the time of Prefect's copy encodes both.
    """
    name = logger_name(tail.stream or "")
    lines, (at_ms, number) = [], tail.counted
    for event in events:
        number = number + 1 if event["timestamp"] == at_ms else 0
        at_ms = event["timestamp"]
        if (at_ms, number) > tail.sent_before and not SENT_BY_ENGINE.match(event["message"]):
            lines.append(log_line(tail.run_id, name, event["message"], time_of(at_ms, number)))
    return lines, (at_ms, number)


def time_of(at_ms: int, number: int) -> dt.datetime:
    at = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).replace(microsecond=0)
    return at + dt.timedelta(microseconds=at_ms % 1000 * ORDINALS + min(number, ORDINALS - 1))


def logger_name(stream: str) -> str:
    return f"aws_batch.{stream.rpartition('/')[2]}"


async def last_line(client: PrefectClient, run_id: UUID, stream: str) -> Position | None:
    """Return a stream's last line in Prefect: a new worker continues after it."""
    # The server's own text search does not work on the SQLite of Debian 12 (no concat before 3.44).
    name, log_filter = logger_name(stream), LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id]))
    for page in range(PAGES):
        logs = await client.read_logs(log_filter, limit=PAGE, offset=page * PAGE, sort=LogSort.TIMESTAMP_DESC)
        if positions := [position_of(log.timestamp) for log in logs if log.name == name]:
            return max(positions)
        if len(logs) < PAGE:
            break
    return None


def position_of(timestamp: dt.datetime) -> Position:
    at_us = round(timestamp.timestamp() * 1_000_000)
    return at_us // ORDINALS, at_us % ORDINALS
