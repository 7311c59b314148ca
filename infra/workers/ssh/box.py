"""The calls of a box: the verbs of `box.sh`."""

import asyncio
import hashlib
import shlex
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import asyncssh

from ..base.job_configuration import JobRefused
from ..brand import BRAND
from ..processes.bundle import bundle
from .answers import (
    LARGEST_PORT,
    Facts,
    State,
    absolute_path,
    check_facts,
    exit_code_in,
    facts_in,
    once,
    seconds_in,
    state_in,
    text_of,
    whole,
    words_of,
)
from .configuration import NONE, SshJobConfiguration
from .connection import ANSWER_S, LOST, BoxUnreachable, answer_of, call, error_text, for_any_shell

SCRIPT = (Path(__file__).parent / "box.sh").read_bytes()
HOME = ".prefect-ssh"  # in the user's home on the box
SCRIPT_AT = f"{HOME}/box-{hashlib.sha256(SCRIPT).hexdigest()[:12]}.sh"
BUSY = 75
GRACE_S = 30  # between SIGTERM and SIGKILL
STOP_S = GRACE_S + 60
CHUNK_BYTES = 64 * 1024
KEEP_DAYS = 7  # after which the folders of ended jobs are deleted from a box
FORGET = 'for ended; do rm -rf -- "${ended%/ended}"; done'


class BoxBusy(Exception):
    """Another job has the box; the text names it if it is known."""


@dataclass(frozen=True)
class Look:
    """The state of a job on its box.

    Attributes:
        unpulled: its image or its environment could not be made.
        late: the box stopped it at its time limit.
        seen: bytes of the log that Prefect has.
        last: line of the log.
        waits: its present obstacle, as a sentence; empty without one.
        queued_s: in the cluster's queue; None without a queue, and before the job began.
        pulled_s: from its box to its start; None before it began, and on a cluster.
        began_ago_s, ended_ago_s: by the box's clock, whose hour can be wrong.
    """

    state: State
    code: int | None = None
    unpulled: bool = False
    oom: bool = False
    late: bool = False
    seen: int = 0
    port: int | None = None
    last: str = ""
    waits: str = ""
    queued_s: int | None = None
    pulled_s: int | None = None
    began_ago_s: int | None = None
    ended_ago_s: int | None = None

    @property
    def begun(self) -> bool:
        return self.queued_s is not None or self.pulled_s is not None


class SshBox:
    """A box behind a connection, with the command of its container runtime.

    Without a runtime, the box's `python` runs process trees with the same commands.
    """

    _script_at = SCRIPT_AT

    def __init__(
        self, connection: asyncssh.SSHClientConnection, runtime: Sequence[str], python: str | None = None
    ) -> None:
        self.connection = connection
        self._runtime = () if runtime == NONE else tuple(runtime)
        self._python = python
        self._home = ""  # the user's, once the script is there

    @classmethod
    def of(cls, connection: asyncssh.SSHClientConnection, configuration: SshJobConfiguration) -> "SshBox":
        return cls(connection, configuration.container_command, configuration.python)

    async def _do(
        self, *command: str, content: bytes = b"", within_s: float = ANSWER_S
    ) -> asyncssh.SSHCompletedProcess:
        return await call(self.connection, shlex.join(command), content, within_s)

    async def _script(
        self, *arguments: str, content: bytes = b"", within_s: float = ANSWER_S
    ) -> asyncssh.SSHCompletedProcess:
        await self._install()
        return await self._do("sh", SCRIPT_AT, *arguments, content=content, within_s=within_s)

    async def _engine(
        self, verb: str, *arguments: str, content: bytes = b"", within_s: float = ANSWER_S
    ) -> asyncssh.SSHCompletedProcess:
        await self._install()  # also finds the runtime of process trees
        return await self._script(verb, *arguments, *self._runtime, content=content, within_s=within_s)

    async def bring(self, path: str, content: bytes) -> None:
        """Upload a file unless the box has it; its name must identify its content."""
        if (await self._do("test", "-s", path)).exit_status:
            await self._put(await self._do("mkdir", "-p", "-m", "700", HOME), path, content)

    async def _install(self) -> None:
        """Upload the script once a connection, and delete the folders of old jobs."""
        if self._home:
            return
        await self.bring(SCRIPT_AT, SCRIPT)
        old = ["-mindepth", "2", "-maxdepth", "2", "-name", "ended", "-mtime", f"+{KEEP_DAYS}"]
        await self._do("find", HOME, *old, "-exec", "sh", "-c", FORGET, "sh", "{}", "+")
        home = absolute_path(text_of((await self._do("printenv", "HOME")).stdout), "HOME")
        if not self._runtime:
            name, program = bundle()
            await self.bring(f"{HOME}/{name}", program)
            self._runtime = (await self._python_of_the_box(), f"{home}/{HOME}/{name}")
        self._home = home

    async def _python_of_the_box(self) -> str:
        found = text_of((await self._do("sh", SCRIPT_AT, "python", BRAND.module, self._python or "")).stdout)
        if not found and self._python:
            reasons = f"it does not exist, has no {BRAND.module} or is older than 3.11"
            raise JobRefused(f"python is {self._python}: {reasons}.", "Unfit")
        if not found:
            text = f"No Python 3.11 or newer with {BRAND.module} was found: set python to its path."
            raise JobRefused(text, "Unfit")
        return absolute_path(found, "python")

    async def folder(self, name: str) -> str:
        """Return our folder's absolute path, by which a job's watcher is found."""
        await self._install()
        return f"{self._home}/{HOME}/{name}"

    async def _put(self, made: asyncssh.SSHCompletedProcess, path: str, content: bytes) -> None:
        """Write a file atomically, readable for its user only."""
        done = made
        if not made.exit_status:
            new = f"{path}.{uuid4().hex[:8]}"  # other jobs write there, too
            command = f"umask 077 && cat > {new} && mv {new} {path}"  # no other program has these paths
            done = await call(self.connection, command, content)
        if done.exit_status:
            reason = words_of(done.stderr, f"exit code {done.exit_status}")
            raise JobRefused(
                f"The box can't be written to ({reason}): free disk space or fix the home folder.", "Unfit"
            )

    async def check(self, image: str) -> Facts:
        return self._facts(await self._engine("check", image))

    @staticmethod
    def _facts(done: asyncssh.SSHCompletedProcess) -> Facts:
        facts = facts_in(done.stdout)
        if "runtime" not in facts:
            raise JobRefused(f"The box cannot run the worker's script ({words_of(done.stderr)}).", "Unfit")
        check_facts(facts)
        return facts

    async def prepare(self, name: str, files: dict[str, bytes]) -> None:
        await self._install()
        made = await self._do("mkdir", "-p", "-m", "700", f"{HOME}/{name}")
        for path, content in files.items():
            await self._put(made, f"{HOME}/{name}/{path}", content)

    async def free(self, lock: str, wait_s: int) -> None:
        """Return when the box is free; raise `BoxBusy` after `wait_s` seconds."""
        done = await self._script("free", lock, str(wait_s), within_s=ANSWER_S + wait_s)
        if done.exit_status == BUSY:
            raise BoxBusy(words_of(done.stdout, ""))
        if done.exit_status:
            text = f"lock_file {lock} can't be opened on the box ({words_of(done.stderr)})."
            raise JobRefused(text, "Unfit")

    async def start(self, name: str, lock: str, limit_s: int, env: str = "", profile: str = "") -> None:
        """Start a prepared job; do nothing if it runs or has run already.

        `env`, the container's variables, and `profile`, Prefect's secrets, are only in the box's memory.
        `BoxBusy` if another job has the box, `JobRefused` if the start fails.
        """
        hidden = (profile.encode(), env.encode())
        sizes = [str(len(content)) for content in hidden]
        words = (await self.folder(name), lock, str(limit_s), *sizes, BRAND.container_label)
        done = await self._engine("start", *words, content=b"".join(hidden))
        if done.exit_status == BUSY:
            raise BoxBusy(words_of(done.stdout, ""))
        if done.exit_status:
            reason = words_of(done.stderr, f"exit code {done.exit_status}")
            raise JobRefused(f"The box could not start the job ({reason}).", "Unfit")

    async def look(self, name: str) -> Look:
        done = await self._engine("look", await self.folder(name))
        values = once(facts_in(done.stdout))
        if "state" not in values:
            raise BoxUnreachable(f"The box gave no answer ({words_of(done.stderr)}).")
        code = values.get("code", "")
        return Look(
            state_in(values),
            code=exit_code_in(code),
            unpulled=code == "unpulled",
            oom=values.get("oom") == "true",
            late="late" in values,
            seen=whole(values, "seen") or 0,
            port=whole(values, "port", LARGEST_PORT),
            last=values.get("last", ""),
            pulled_s=seconds_in(values.get("pulled", "")),
            began_ago_s=seconds_in(values.get("began_ago", "")),
            ended_ago_s=seconds_in(values.get("ended_ago", "")),
        )

    async def lines(self, name: str, offset: int) -> AsyncGenerator[bytes, None]:
        """Yield the log from byte `offset` on, as it grows; `BoxUnreachable` for a lost connection."""
        folder = await self.folder(name)
        try:
            process = await self.process("lines", folder, str(offset))
            try:
                while chunk := await process.stdout.read(CHUNK_BYTES):
                    yield chunk
                await asyncio.wait_for(answer_of(process), ANSWER_S)
            finally:
                process.close()  # without waiting: the box might not answer
        except (*LOST, asyncssh.Error) as error:
            raise BoxUnreachable(f"The connection was lost ({error_text(error)}).") from None

    async def stop(self, name: str, grace_s: int = GRACE_S) -> bool:
        """Return True once the job is gone."""
        words = (await self.folder(name), str(grace_s))
        done = await self._engine("stop", *words, within_s=grace_s + STOP_S)
        return done.exit_status == 0

    async def secret(self, name: str) -> str:
        return text_of((await self._do("cat", f"/dev/shm/{name}/prefect-secrets/profiles.toml")).stdout)

    async def own(self, name: str) -> None:
        """Follow a job by this connection; end an earlier connection that the box still has."""
        await self._script("session", await self.folder(name))

    async def process(self, *arguments: str) -> asyncssh.SSHClientProcess[bytes]:
        """Start a verb that reads its input; the script must be there, as after `check`."""
        command = for_any_shell(shlex.join(["sh", self._script_at, *arguments]))
        return await self.connection.create_process(command, encoding=None)

    async def marked(self, kind: str, name: str) -> str:
        """Return a stored value, or an empty text; the name must be safe for a file."""
        return text_of((await self._do("cat", f"{HOME}/{kind}-{name}")).stdout)

    async def mark(self, kind: str, name: str, value: str) -> None:
        await self._put(await self._do("true"), f"{HOME}/{kind}-{name}", value.encode())

    async def note(self, name: str, fact: str, value: object) -> None:
        folder = shlex.quote(f"{HOME}/{name}")
        await call(
            self.connection, f"[ ! -d {folder} ] || printf %s {shlex.quote(str(value))} > {folder}/{fact}"
        )
