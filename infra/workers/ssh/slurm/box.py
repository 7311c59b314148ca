"""A login node of Slurm as a box, by `slurm.sh` in place of `box.sh`."""

import datetime as dt
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import asyncssh

from ...base.job_configuration import JobRefused
from ..answers import (
    LARGEST_PORT,
    Facts,
    exit_code_in,
    facts_in,
    once,
    seconds_in,
    state_in,
    text_of,
    whole,
    words_of,
)
from ..box import HOME, Look, SshBox
from ..configuration import SshJobConfiguration
from ..connection import ANSWER_S, BoxUnreachable
from .outcome import Written
from .reasons import to_give_up
from .states import RUNNING, SlurmJob, from_sacct, from_scontrol
from .submission import submission

HERE = Path(__file__).parent
SCRIPTS = {name: (HERE / f"{name}.sh").read_bytes() for name in ("slurm", "job")}
PATHS = {
    name: f"{HOME}/{name}-{hashlib.sha256(content).hexdigest()[:12]}.sh" for name, content in SCRIPTS.items()
}
RUN = b"run\0"  # the verb of a process tree, removed here: a batch script waits for its end
SUBMIT_S = 1800  # its environment is made first, and a busy controller answers slowly
CANCEL_S = 300


@dataclass(frozen=True)
class SlurmLook(Look):
    """The state of a job by Slurm's report and the files in its folder."""

    job: SlurmJob | None = None
    waited_s: int = 0  # since it was submitted
    written: Written = field(default_factory=Written)


class SlurmBox(SshBox):
    """A login node behind a connection."""

    _script_at = PATHS["slurm"]
    configuration: SshJobConfiguration

    @classmethod
    def of(cls, connection: asyncssh.SSHClientConnection, configuration: SshJobConfiguration) -> Self:
        box = cls(connection, configuration.container_command, configuration.python)
        box.configuration = configuration
        return box

    async def _slurm(
        self, verb: str, *arguments: str, content: bytes = b"", within_s: float = ANSWER_S
    ) -> asyncssh.SSHCompletedProcess:
        await self._install()
        return await self._do("sh", PATHS["slurm"], verb, *arguments, content=content, within_s=within_s)

    async def _install(self) -> None:
        if self._home:
            return
        for name, content in SCRIPTS.items():
            await self.bring(PATHS[name], content)
        await super()._install()

    async def check(self, image: str) -> Facts:
        return self._facts(await self._slurm("check"))

    async def prepare(self, name: str, files: dict[str, bytes]) -> None:
        words = {path: content.removeprefix(RUN) for path, content in files.items() if path == "run"}
        await super().prepare(name, files | words)

    async def free(self, lock: str, wait_s: int) -> None:
        """Return at once: Slurm's queue is the lock of its nodes."""

    async def start(self, name: str, lock: str, limit_s: int, env: str = "", profile: str = "") -> None:
        """Submit a prepared job, unless Slurm has it or had it; `JobRefused` if Slurm refuses."""
        folder, request = await self.folder(name), self.configuration.slurm
        port = text_of((await self._do("cat", f"{HOME}/{name}/port")).stdout) or "0"
        options = submission(self.configuration, request, name, folder)
        script = (f"{self._home}/{PATHS['job']}", folder, str(limit_s), port, request.login or "-")
        hidden = (profile.encode(), env.encode())
        sizes = [str(len(content)) for content in hidden]
        words = (folder, *sizes, *self._runtime, *options, *script, *self._runtime)
        done = await self._slurm("start", *words, content=b"".join(hidden), within_s=SUBMIT_S)
        if done.exit_status:
            reason = refusal_in(text_of(done.stderr))
            raise JobRefused(f"Slurm does not take the job: {reason}.", "Unschedulable")

    async def look(self, name: str) -> SlurmLook:
        """Cancel a job that would wait for nothing."""
        look = await self._look(name)
        if look.job is None or look.job.ended:
            return look
        noted = look.written.given_up
        why = to_give_up(look.job, look.waited_s, self.configuration.wait_s)
        if noted and not why and look.job.state == RUNNING:  # it began before Slurm received the cancellation
            await self.note(name, "given_up", "")
        elif why or noted:  # Slurm might not have answered the last time
            await self.note(name, "given_up", why or noted)
            await self.stop(name)
        else:
            return look
        return await self._look(name)

    async def _look(self, name: str) -> SlurmLook:
        done = await self._slurm("look", await self.folder(name))
        facts = once(facts_in(done.stdout))
        if "state" not in facts:
            raise BoxUnreachable(f"The login node gave no answer ({words_of(done.stderr)}).")
        job, state = job_in(facts), state_in(facts)
        code, _, oom = facts.get("exit", "").partition(" ")
        written = Written(
            code=exit_code_in(code),
            unpulled=code == "unpulled",
            oom=oom.strip() == "true",
            late="late" in facts,
            unreached=facts.get("unreached", ""),
            given_up=facts.get("given_up", ""),
            last=facts.get("last", ""),
        )
        ended = state == "running" and (job is None or job.ended)
        waits = ""
        if job and job.waits:
            waits = f"Slurm job {job.number} waits: {job.reason or 'not examined yet'}."
        return SlurmLook(
            "ended" if ended else state,
            seen=whole(facts, "seen") or 0,
            port=whole(facts, "port", LARGEST_PORT),
            last=facts.get("last", ""),
            waits=waits,
            job=job,
            queued_s=seconds_in(facts.get("queued", "")),
            waited_s=seconds_in(facts.get("waited", "")) or 0,
            began_ago_s=_ago_s(facts.get("now", ""), job.began if job else None),
            ended_ago_s=_ago_s(facts.get("now", ""), job.over if job else None),
            written=written,
        )

    async def stop(self, name: str, grace_s: int = 30) -> bool:
        done = await self._slurm("stop", await self.folder(name), str(grace_s), within_s=grace_s + CANCEL_S)
        return done.exit_status == 0

    async def secret(self, name: str) -> str:
        return text_of((await self._do("cat", f"{HOME}/{name}/profiles.toml")).stdout)


def _ago_s(now: str, then: dt.datetime | None) -> int | None:
    try:
        return None if then is None else max(0, int((dt.datetime.fromisoformat(now) - then).total_seconds()))
    except (TypeError, ValueError):  # only one of them has a zone, or one is not a time
        return None


def box_of(connection: asyncssh.SSHClientConnection, configuration: SshJobConfiguration) -> SshBox:
    return (SlurmBox if configuration.scheduler else SshBox).of(connection, configuration)


def job_in(facts: dict[str, str]) -> SlurmJob | None:
    """Return the controller's report, or accounting's if that knows more; `BoxUnreachable` without an answer."""
    if "job" not in facts:
        return None
    accounted = from_sacct(facts.get("sacct", ""))
    try:
        job = from_scontrol(facts.get("scontrol", ""))
    except ValueError as error:
        raise BoxUnreachable(f"Slurm gives no answer ({error}).") from None
    if job is None or (accounted and accounted.state == job.state):
        return accounted
    return job


def refusal_in(said: str) -> str:
    prefix = r"^sbatch: (error|fatal): (Batch job submission failed: )?"
    reasons = [re.sub(prefix, "", line) for line in said.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(reasons)).rstrip(".") or "no output"
