"""The rate of requests to Lambda."""

import asyncio
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ApiPace:
    """The client's rates and patience.

    Attributes:
        call_s: between two requests. API document: one a second.
        launch_s: between two launches. API document: one in 12 seconds.
        retry_s: the first wait after a failed request; later ones grow up to `longest_retry_s`.
        patience_s: total time of a request's retries.
        look_s: between two reads of an instance that boots or ends.
        wait_s: the first wait for capacity; later ones grow up to `longest_wait_s`.
        return_s: total time of attempts to end an instance.
        timeout_s: of one request; the answer to a launch can take long.
    """

    call_s: float = 1.05
    launch_s: float = 12.5
    retry_s: float = 1.0
    longest_retry_s: float = 30.0
    patience_s: float = 120.0
    look_s: float = 5.0
    wait_s: float = 15.0
    longest_wait_s: float = 120.0
    return_s: float = 900.0
    timeout_s: float = 60.0


class HoldSettings(BaseSettings):
    """The rates of the flow that holds a box, from `LAMBDA_RENTAL_POLL_S` and so on."""

    model_config = SettingsConfigDict(env_prefix="LAMBDA_RENTAL_")

    poll_s: float = Field(default=3, gt=0, description="Seconds between reads of its flow run's labels.")
    look_s: float = Field(
        default=15, gt=0, description="Seconds between checks of the box and of the run that uses it."
    )
    alone_s: float = Field(
        default=120,
        gt=0,
        description="Seconds without anybody measuring the run, after which the box goes back.",
    )
    api_factor: float = Field(
        default=1,
        gt=0,
        description="Factor on all waits between requests to Lambda's API; 1 for the real one.",
    )

    @property
    def api(self) -> ApiPace:
        pace, factor = ApiPace(), self.api_factor
        return replace(
            pace,
            call_s=pace.call_s * factor,
            launch_s=pace.launch_s * factor,
            retry_s=pace.retry_s * factor,
            longest_retry_s=pace.longest_retry_s * factor,
            look_s=pace.look_s * factor,
            wait_s=pace.wait_s * factor,
            longest_wait_s=pace.longest_wait_s * factor,
        )


def shared_file(secret: str, what: str) -> Path:
    """Return the file with the last request of this machine's processes with one API key."""
    digest = hashlib.sha256(secret.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"gridbench-lambda-{os.getuid()}-{digest}-{what}"


class Turnstile:
    """Lets one caller through per interval, in order of arrival.

    With a file, other processes that use it count too, in random order.
    """

    def __init__(
        self,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        file: Path | None = None,
    ) -> None:
        self._every_s, self._clock, self._sleep = every_s, clock, sleep
        self._file = file if every_s else None
        self._free_at = float("-inf")
        self._lock = anyio.Lock()

    async def wait(self) -> None:
        async with self._lock:
            if (pause := self._free_at - self._clock()) > 0:
                await self._sleep(pause)
            while (pause := self._taken_s()) > 0:
                await self._sleep(pause)
            self._free_at = self._clock() + self._every_s

    def _taken_s(self) -> float:
        """Take the turn and return 0, or return the seconds until then."""
        if self._file is None:
            return 0.0
        try:
            opened = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return 0.0  # each process keeps its own pace then
        with open(opened, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            now, last = self._clock(), float("-inf")
            with suppress(ValueError):
                last = float(file.read())
            if 0 <= now - last < self._every_s:  # a time in the future is from before a reboot
                return self._every_s - (now - last)
            file.seek(0)
            file.truncate()
            file.write(repr(now))
        return 0.0


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Finish the work before a cancellation of the caller, in a separate task.

    anyio's shield does not stop `Task.cancel`, such as a second Ctrl-C's. A failure of the work becomes the
    cancellation's cause.
    """
    task = asyncio.ensure_future(work)
    stopped: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                stopped = error
    if stopped is None:
        return task.result()
    raise stopped from (None if task.cancelled() else task.exception())
