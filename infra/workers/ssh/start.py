"""How a job comes to a box: one that answers, is fit and free, has the image, and is asked once."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.outcome import StateName
from infra.workers.ssh.box import BoxBusy, SshBox
from infra.workers.ssh.check import has_image, unmet_requirements
from infra.workers.ssh.command_line import api_of, pull_command, run_command, secret_profile
from infra.workers.ssh.configuration import Host, SshJobConfiguration
from infra.workers.ssh.connection import BoxUnreachable, SecretOf, connect
from infra.workers.ssh.image import stream
from infra.workers.ssh.tunnel import take_over, tunnel

UNFIT: StateName = "Unfit"
WAIT_THERE_S = 10  # on a box that is busy, before it is asked anew


@dataclass(frozen=True)
class Started:
    """A job that runs, or has run, on a box, over whose connection its tunnel leads."""

    host: Host
    box: SshBox


class Launcher:
    """Starts one try of a flow run on one of its boxes.

    Args:
        asked: the job.
        name: of its container.
        secret_of: reads a Secret block.
        note: told where the job is about to be, before it is there.
        given_up: whether nobody wants the job any more.
        before: the box that an earlier worker has noted: it may have the job.
    """

    def __init__(
        self,
        asked: SshJobConfiguration,
        name: str,
        secret_of: SecretOf,
        note: Callable[[Host], Awaitable[None]],
        given_up: Callable[[], Awaitable[bool]],
        log: "logging.LoggerAdapter[Any]",
        poll_s: float,
        before: Host | None = None,
    ) -> None:
        self._asked, self._name, self._secret_of = asked, name, secret_of
        self._note, self._given_up, self._log, self._poll_s = note, given_up, log, poll_s
        self._told: dict[Host, str] = {}
        self._asked_of = before  # may have the job, whatever we heard of it

    async def start(self) -> Started:
        """Try the boxes in turn until one has the job.

        Raises:
            JobRefused: none can take it, or none did in time.
        """
        deadline = time.monotonic() + self._asked.wait_s
        while True:
            refusals = []
            hosts = [self._asked_of] if self._asked_of else self._asked.hosts
            for host in hosts:
                try:
                    return await self._on(host)
                except (BoxBusy, BoxUnreachable) as reason:
                    self._tell(host, reason)
                    if self._asked_of:  # it may have the job: no other is asked until that is known
                        break
                except JobRefused as refusal:
                    refusals.append(refusal)
            if refusals and len(refusals) == len(hosts):
                raise refusals[0]
            if await self._given_up():
                raise JobRefused("Cancelled from Prefect before a box took the job.", "Cancelled")
            if time.monotonic() > deadline:
                raise JobRefused(
                    f"No box took the job in wait_s {self._asked.wait_s}. {' '.join(self._told.values())}",
                    "NoCapacity",
                )
            await asyncio.sleep(self._poll_s)

    def _tell(self, host: Host, reason: Exception) -> None:
        who = f" ({reason})" if str(reason) else ""
        said = f"Box {host} measures for somebody else{who}." if isinstance(reason, BoxBusy) else str(reason)
        if self._told.get(host) != said:
            self._log.info("%s Waiting up to %s s for a box.", said, self._asked.wait_s)
            self._told[host] = said

    async def _on(self, host: Host) -> Started:
        box = SshBox(await connect(host, self._secret_of), self._asked.container_command)
        try:
            await self._begin(host, box)
        except BaseException as error:
            box.connection.close()
            if isinstance(error, JobRefused):
                raise JobRefused(f"Box {host}: {error}", error.state) from None
            raise
        return Started(host, box)

    async def _begin(self, host: Host, box: SshBox) -> None:
        asked, name = self._asked, self._name
        look = await box.look(name)
        if look.state not in ("absent", "prepared"):  # an answer was lost, or a worker
            return await take_over(box, name, look, asked)
        if look.state == "prepared" and self._asked_of == host:  # asked, and the answer was lost
            await take_over(box, name, look, asked, waiting=True)
            return await self._ask(host, box)
        await box.free(asked.lock_file, WAIT_THERE_S if len(asked.hosts) == 1 else 0)
        facts = await box.check(str(asked.image))
        if found := unmet_requirements(facts, asked):
            raise JobRefused(" ".join(found), UNFIT)
        if asked.pull == "stream":
            await box.prepare(name, {})
            await box.own(name)
            await stream(box, asked, facts, self._log)
        port = None
        if asked.tunnel:
            port = await tunnel(box.connection, api_of(asked.env.get("PREFECT_API_URL") or ""), None)
        files = {"run": run_command(asked, name, port)}
        if asked.pull == "always" or (asked.pull == "if-not-present" and not has_image(facts)):
            files["pull"] = pull_command(asked)
        contents = {path: "".join(f"{word}\0" for word in words).encode() for path, words in files.items()}
        await box.prepare(name, contents | ({"port": str(port).encode()} if port else {}))
        await box.own(name)
        await self._note(host)
        await self._ask(host, box)

    async def _ask(self, host: Host, box: SshBox) -> None:
        """Have a box that is prepared start the job; only its own answer says that it did not."""
        asked, self._asked_of = self._asked, host
        try:
            await box.start(self._name, asked.lock_file, asked.timeout_s, secret_profile(asked.env) or "")
        except (BoxBusy, JobRefused):
            self._asked_of = None
            raise
