"""Runners of containers: processes of this machine here, podman's containers in `podman`."""

import asyncio
import contextlib
import datetime as dt
import fnmatch
import os
import signal
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

NOT_FOUND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
    'failed: unable to start container process: error during container init: exec: "{program}": {why}'
)


class CannotStart(Exception):
    """The container could not start; the text is the runtime's."""


class Ended(NamedTuple):
    """The end of a container; `out_of_memory`: the kernel killed in it."""

    exit_code: int
    out_of_memory: bool = False


@dataclass(frozen=True)
class Wanted:
    """A container to start. `memory_bytes` and `shm_bytes` are limits or None.

    `tmpfs`: mount points of memory volumes with sizes. `binds`: (host, container, read-only).
    """

    name: str
    image: str
    command: list[str]
    args: list[str]
    environment: dict[str, str]
    folder: str | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    tmpfs: dict[str, int | None] = field(default_factory=dict)
    binds: list[tuple[str, str, bool]] = field(default_factory=list)
    user: str | None = None
    read_only: bool = False


class Log:
    """A container's output in timed lines; new lines wake followers."""

    def __init__(self) -> None:
        self.lines: list[tuple[dt.datetime, bytes]] = []
        self.rest, self.closed = b"", False
        self.more = asyncio.Event()

    def write(self, chunk: bytes) -> None:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        self.lines += [(dt.datetime.now(dt.UTC), line + b"\n") for line in lines]
        self.wake()

    def close(self) -> None:
        """End the log; a last part without a newline is a line too."""
        if self.rest:
            self.lines.append((dt.datetime.now(dt.UTC), self.rest))
        self.rest, self.closed = b"", True
        self.wake()

    def wake(self) -> None:
        self.more.set()
        self.more = asyncio.Event()


class Running(Protocol):
    async def wait(self) -> Ended:
        """Return when it has ended and its log is complete."""

    async def signal(self, number: int) -> None:
        """Signal its first process; SIGKILL reaches all of it."""


class Runner(Protocol):
    async def has(self, image: str) -> bool: ...

    async def start(self, wanted: Wanted, log: Log) -> Running:
        """Start a container whose output goes to the log; raise CannotStart."""

    async def close(self) -> None: ...


class Process:
    def __init__(self, process: asyncio.subprocess.Process, log: Log) -> None:
        self.process, self.log = process, log
        self.reading = asyncio.ensure_future(self.read())

    async def read(self) -> None:
        stdout = self.process.stdout
        while stdout and (chunk := await stdout.read(65536)):
            self.log.write(chunk)

    async def wait(self) -> Ended:
        code = await self.process.wait()
        with contextlib.suppress(ProcessLookupError):  # a container takes its processes with it
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.reading
        self.log.close()
        return Ended(128 - code if code < 0 else code)

    async def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)


class Processes:
    """Run a container's command as a process: fast, without image, limits and volumes.

    `known`: globs of images that can be pulled. `entrypoints`: the command of an image (glob) before the
    args. `environment`: added to every pod's own.
    """

    def __init__(
        self,
        known: tuple[str, ...] = ("*",),
        entrypoints: dict[str, list[str]] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.known, self.entrypoints, self.environment = known, entrypoints or {}, environment or {}
        self.running: set[Process] = set()

    async def has(self, image: str) -> bool:
        return any(fnmatch.fnmatchcase(image, pattern) for pattern in self.known)

    async def start(self, wanted: Wanted, log: Log) -> Process:
        found = (argv for glob, argv in self.entrypoints.items() if fnmatch.fnmatchcase(wanted.image, glob))
        argv = [*(wanted.command or next(found, [])), *wanted.args]
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        options: dict[str, Any] = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE}
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                **options,
                stderr=asyncio.subprocess.STDOUT,
                cwd=wanted.folder,
                env=environment | self.environment | wanted.environment,
                start_new_session=True,
            )
        except (OSError, IndexError, TypeError) as error:
            why = "executable file not found in $PATH" if isinstance(error, FileNotFoundError) else str(error)
            raise CannotStart(NOT_FOUND.format(program="".join(argv[:1]), why=why)) from None
        running = Process(process, log)
        self.running.add(running)
        running.reading.add_done_callback(lambda _: self.running.discard(running))
        return running

    async def close(self) -> None:
        for running in list(self.running):
            await running.signal(signal.SIGKILL)
            with contextlib.suppress(asyncio.CancelledError):
                await running.wait()
