"""The start of a job on one of its boxes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..base.job_configuration import JobRefused
from .box import BoxBusy, SshBox
from .check import has_image, home_of, unmet_requirements
from .command_line import env_file, pull_command, run_command, secret_profile
from .configuration import Host, SshJobConfiguration
from .connection import BoxUnreachable, SecretOf, connect
from .image import stream
from .sending import bring_code, code_variables
from .slurm.box import box_of
from .tunnel import Tunnel

WAIT_THERE_S = 10  # of waiting on a busy box, before the next box is asked


@dataclass(frozen=True)
class Started:
    """A job that runs, or has run, on a box."""

    host: Host
    box: SshBox


class Launcher:
    """Starts one try of a flow run on one of its boxes.

    Args:
        note: receives the box that is about to get the job.
        before: the box that an earlier worker has noted: it might have the job.
    """

    def __init__(
        self,
        configuration: SshJobConfiguration,
        name: str,
        tunnel: Tunnel,
        secret_of: SecretOf,
        note: Callable[[Host], Awaitable[None]],
        given_up: Callable[[], Awaitable[bool]],
        log: "logging.LoggerAdapter[Any]",
        poll_s: float,
        before: Host | None = None,
    ) -> None:
        self._configuration, self._name = configuration, name
        self._tunnel, self._secret_of = tunnel, secret_of
        self._note, self._given_up, self._log, self._poll_s = note, given_up, log, poll_s
        self._logged: dict[Host, str] = {}
        self._asked_host = before  # it might have the job, whatever it answered

    async def start(self) -> Started:
        """Try the boxes in turn until one has the job.

        `JobRefused` if none can take it, or none did in time.
        """
        deadline = time.monotonic() + self._configuration.wait_s
        while True:
            refusals = []
            hosts = [self._asked_host] if self._asked_host else self._configuration.hosts
            for host in hosts:
                try:
                    return await self._on(host)
                except (BoxBusy, BoxUnreachable) as reason:
                    self._log_wait(host, reason)
                    if self._asked_host:  # it might have the job: ask no other until that is known
                        break
                except JobRefused as refusal:
                    refusals.append(refusal)
            if refusals and len(refusals) == len(hosts):
                raise refusals[0]
            if await self._given_up():
                raise JobRefused("Cancelled from Prefect before a box took the job.", "Cancelled")
            if time.monotonic() > deadline:
                reasons = " ".join(self._logged.values())
                text = f"No box took the job in wait_s {self._configuration.wait_s}. {reasons}"
                raise JobRefused(text, "NoCapacity")
            await asyncio.sleep(self._poll_s)

    def _log_wait(self, host: Host, reason: Exception) -> None:
        who = f" ({reason})" if str(reason) else ""
        sentence = f"Box {host} is in use{who}." if isinstance(reason, BoxBusy) else str(reason)
        if self._logged.get(host) != sentence:
            self._log.info("%s The job waits up to %s s for a box.", sentence, self._configuration.wait_s)
            self._logged[host] = sentence

    async def _on(self, host: Host) -> Started:
        box = box_of(await connect(host, self._secret_of), self._configuration)
        try:
            await self._begin(host, box)
        except BaseException as error:
            box.connection.close()
            if isinstance(error, JobRefused):
                raise JobRefused(f"Box {host}: {error}", error.state) from None
            raise
        return Started(host, box)

    async def _begin(self, host: Host, box: SshBox) -> None:
        configuration, name = self._configuration, self._name
        look = await box.look(name)
        if look.state not in ("absent", "prepared"):  # an answer was lost, or a worker
            return await self._tunnel.take_over(box, name, look, host)
        if look.state == "prepared" and self._asked_host == host:  # configuration, and the answer was lost
            await self._tunnel.take_over(box, name, look, host, waiting=True)
            await self._ask(host, box, look.port)
            return await self._tunnel.learn(box, name)
        await box.free(configuration.lock_file, WAIT_THERE_S if len(configuration.hosts) == 1 else 0)
        facts = await box.check(str(configuration.image))
        if problems := unmet_requirements(facts, configuration):
            raise JobRefused(" ".join(problems), "Unfit")
        if configuration.pull == "stream":
            await box.prepare(name, {})
            await box.own(name)
            await stream(box, configuration, facts, self._log)
        port = None
        if configuration.tunnel:
            port = await self._tunnel.open(box.connection, host, None)
        if configuration.has_containers:
            files = {"run": run_command(configuration, name, port, home_of(facts))}
            missing = configuration.pull == "if-not-present" and not has_image(facts)
            if configuration.pull == "always" or missing:
                files["pull"] = pull_command(configuration)
        else:
            files = await bring_code(box, configuration, name, self._log)
        contents = {path: "".join(f"{word}\0" for word in words).encode() for path, words in files.items()}
        await box.prepare(name, contents | ({"port": str(port).encode()} if port else {}))
        await box.own(name)
        await self._note(host)
        await self._ask(host, box, port)

    async def _ask(self, host: Host, box: SshBox, port: int | None) -> None:
        """Ask a prepared box to start the job; only its own answer proves that it did not."""
        configuration = self._configuration
        token = self._tunnel.token if configuration.tunnel else None
        if not configuration.has_containers:
            configuration.env = {**code_variables(), **configuration.env}
        hidden = env_file(configuration, self._name, port), secret_profile(configuration.env, token)
        self._asked_host = host
        try:
            await box.start(self._name, configuration.lock_file, configuration.timeout_s, *hidden)
        except (BoxBusy, JobRefused):
            self._asked_host = None
            raise
